"""Stores, partitions, replicas and their configuration: the values that every program shares."""

from enum import StrEnum
from typing import NewType

import msgspec

from qss_core.errors import MalformedRequestError

StoreId = NewType("StoreId", str)
StoreName = NewType("StoreName", str)
PodName = NewType("PodName", str)
Ordinal = NewType("Ordinal", int)
PartitionId = NewType("PartitionId", int)
Epoch = NewType("Epoch", int)
Offset = NewType("Offset", int)
Sequence = NewType("Sequence", int)
WriterEpoch = NewType("WriterEpoch", int)

PARTITIONS_MAX = 512


class StoreType(StrEnum):
    """What a store's rows are keyed by."""

    KEY_VALUE = "KeyValue"
    WINDOW = "Window"
    SESSION = "Session"
    VERSIONED = "Versioned"
    CUSTOM = "Custom"


class Partitioner(StrEnum):
    """Who chooses a row's partition."""

    MURMUR2 = "Murmur2"  # Kafka's default partitioner over the serialized key.
    EXPLICIT = "Explicit"  # The row and the request say it (KIP-67's custom StreamPartitioner).


class Isolation(StrEnum):
    """Which rows a query may see (KIP-892)."""

    READ_COMMITTED = "READ_COMMITTED"
    READ_UNCOMMITTED = "READ_UNCOMMITTED"


class Role(StrEnum):
    """What a replica is to its partition."""

    ACTIVE = "active"
    STANDBY = "standby"
    LEARNER = "learner"


class Wire(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A value that travels as JSON: camelCase members, nothing unknown, nothing missing."""


class PartitionConfiguration(Wire, frozen=True, kw_only=True):
    """Who serves one partition in one epoch.

    Pods are ordinals. `active` is in `in_sync`, `in_sync` is in `replicas`.
    """

    partition: PartitionId
    epoch: Epoch
    active: Ordinal
    in_sync: tuple[Ordinal, ...]
    replicas: tuple[Ordinal, ...]

    def __post_init__(self) -> None:
        """Refuse what no planner may publish."""
        if self.epoch < 1 or self.partition < 0:
            raise MalformedRequestError("an epoch counts from 1 and a partition from 0")
        if self.active not in self.in_sync or not set(self.in_sync) <= set(self.replicas):
            raise MalformedRequestError(
                f"partition {self.partition}: active must be in inSync and inSync in replicas"
            )

    def role_of(self, pod: Ordinal) -> Role | None:
        """The role of a pod, or None where it holds no replica."""
        if pod == self.active:
            return Role.ACTIVE
        if pod in self.in_sync:
            return Role.STANDBY
        return Role.LEARNER if pod in self.replicas else None


class StoreDefinition(Wire, frozen=True, kw_only=True):
    """What a store is: the immutable half of its resource, and its format."""

    name: StoreName
    store_id: StoreId
    type: StoreType
    format: str
    key_serde: str
    value_serde: str
    partitioner: Partitioner
    partitions: int
    isolation: Isolation = Isolation.READ_COMMITTED
    # Of stores whose rows have times, in milliseconds; retention counts in stream time.
    retention_ms: int | None = None
    window_size_ms: int | None = None
    session_gap_ms: int | None = None
    retain_duplicates: bool = False
    history_retention_ms: int | None = None
    # Of stores of a type of a user's own: its name, and what it was given, by name.
    custom_name: str | None = None
    custom_options: tuple[tuple[str, str], ...] = ()

    @property
    def row_type(self) -> StoreType:
        """What its rows are like: those of a user's own type are a KeyValue store's."""
        return StoreType.KEY_VALUE if self.type is StoreType.CUSTOM else self.type

    def __post_init__(self) -> None:
        """Refuse a store that does not say what its type needs to be told."""
        length = {
            StoreType.WINDOW: self.window_size_ms,
            StoreType.SESSION: self.session_gap_ms,
        }
        if self.type in length and None in (self.retention_ms, length[self.type]):
            raise MalformedRequestError(
                f"a store of type {self.type} has a retention and a "
                f"{'window size' if self.type is StoreType.WINDOW else 'session gap'}"
            )
        if self.type is StoreType.VERSIONED and self.history_retention_ms is None:
            raise MalformedRequestError(f"a store of type {self.type} has a history retention")
        if (self.type is StoreType.CUSTOM) is (self.custom_name is None):
            raise MalformedRequestError(
                "a store of type Custom, and no other one, has a custom name"
            )


class StoreSettings(Wire, frozen=True, kw_only=True):
    """Limits of a store that its resource sets; bytes and milliseconds."""

    uncommitted_bytes_max: int = 64 * 1024 * 1024  # -1: no limit.
    staged_bytes_max: int | None = None  # None: half of the volume's free space.
    changelog_retention_ms: int = 24 * 3600 * 1000
    changelog_retention_bytes: int = 256 * 1024 * 1024


class PodAddress(Wire, frozen=True, kw_only=True):
    """Where one pod listens: base URLs without a trailing slash."""

    ordinal: Ordinal
    name: PodName
    query: str
    changelog: str


class StoreAssignment(Wire, frozen=True, kw_only=True):
    """The whole of a store's placement, as the operator gives it to every pod."""

    definition: StoreDefinition
    settings: StoreSettings
    pods: tuple[PodAddress, ...]
    partitions: tuple[PartitionConfiguration, ...]

    def __post_init__(self) -> None:
        """Refuse an assignment that does not place every partition on a known pod."""
        if [entry.partition for entry in self.partitions] != list(
            range(self.definition.partitions)
        ):
            raise MalformedRequestError("an assignment lists every partition once, in order")
        known = {pod.ordinal for pod in self.pods}
        if any(not set(entry.replicas) <= known for entry in self.partitions):
            raise MalformedRequestError("a replica is placed on a pod that has no address")
