"""Stores, partitions, replicas and their configuration: values that all programs share."""

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
    """The type of a store's rows and keys."""

    KEY_VALUE = "KeyValue"
    WINDOW = "Window"
    SESSION = "Session"
    VERSIONED = "Versioned"
    CUSTOM = "Custom"


class Partitioner(StrEnum):
    """The rule that chooses the partition of a row."""

    MURMUR2 = "Murmur2"  # Kafka's default partitioner over the serialized key.
    EXPLICIT = "Explicit"  # The row and the request name it (KIP-67's custom StreamPartitioner).


class Isolation(StrEnum):
    """The rows that a query may see (KIP-892)."""

    READ_COMMITTED = "READ_COMMITTED"
    READ_UNCOMMITTED = "READ_UNCOMMITTED"


class Role(StrEnum):
    """The role of a replica in its partition."""

    ACTIVE = "active"
    STANDBY = "standby"
    LEARNER = "learner"


class Wire(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A value encoded as JSON: camelCase members, no unknown and no missing ones."""


class Answer(Wire, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """A value that a newer program may extend: unknown members are ignored."""


_EPOCH_MAX = 2**53  # A number of JSON has so many bits.


class PartitionConfiguration(Wire, frozen=True, kw_only=True):
    """The pods that serve one partition in one epoch.

    Pods are ordinals. `active` is in `in_sync`, `in_sync` is in `replicas`.
    """

    partition: PartitionId
    epoch: Epoch
    active: Ordinal
    in_sync: tuple[Ordinal, ...]
    replicas: tuple[Ordinal, ...]

    def __post_init__(self) -> None:
        """Raises MalformedRequestError for a configuration that no planner may publish."""
        if not 1 <= self.epoch <= _EPOCH_MAX or self.partition < 0:
            raise MalformedRequestError("an epoch counts from 1 to 2^53, and a partition from 0")
        if self.active not in self.in_sync or not set(self.in_sync) <= set(self.replicas):
            raise MalformedRequestError(
                f"partition {self.partition}: active must be in inSync and inSync in replicas"
            )

    def role_of(self, pod: Ordinal) -> Role | None:
        """The role of a pod; None if it has no replica of the partition."""
        if pod == self.active:
            return Role.ACTIVE
        if pod in self.in_sync:
            return Role.STANDBY
        return Role.LEARNER if pod in self.replicas else None


class StoreDefinition(Wire, frozen=True, kw_only=True):
    """The definition of a store: the immutable part of its resource, and its format."""

    name: StoreName
    store_id: StoreId
    type: StoreType
    format: str
    key_serde: str
    value_serde: str
    partitioner: Partitioner
    partitions: int
    isolation: Isolation = Isolation.READ_COMMITTED
    # For rows with times, in milliseconds; retention is measured in stream time.
    retention_ms: int | None = None
    window_size_ms: int | None = None
    session_gap_ms: int | None = None
    retain_duplicates: bool = False
    history_retention_ms: int | None = None
    # For a custom store type: its name and its options.
    custom_name: str | None = None
    custom_options: tuple[tuple[str, str], ...] = ()

    @property
    def row_type(self) -> StoreType:
        """The type of the rows: a custom type has rows like a KeyValue store."""
        return StoreType.KEY_VALUE if self.type is StoreType.CUSTOM else self.type

    def __post_init__(self) -> None:
        """Raises MalformedRequestError if a member that the type needs is missing."""
        length = {
            StoreType.WINDOW: self.window_size_ms,
            StoreType.SESSION: self.session_gap_ms,
        }
        if self.type in length and None in (self.retention_ms, length[self.type]):
            raise MalformedRequestError(
                f"a store of type {self.type} needs a retention and a "
                f"{'window size' if self.type is StoreType.WINDOW else 'session gap'}"
            )
        if self.type is StoreType.VERSIONED and self.history_retention_ms is None:
            raise MalformedRequestError(f"a store of type {self.type} needs a history retention")
        if (self.type is StoreType.CUSTOM) is (self.custom_name is None):
            raise MalformedRequestError(
                "a store of type Custom needs a custom name, and no other one may have one"
            )


class StoreSettings(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """Limits that a store's resource sets, in bytes and milliseconds.

    Pods of an older version are sent only the settings that they know (`wire.versions`).
    """

    uncommitted_bytes_max: int = 64 * 1024 * 1024  # -1: no limit.
    staged_bytes_max: int | None = None  # None: half of the volume's free space.
    changelog_retention_ms: int = 24 * 3600 * 1000
    changelog_retention_bytes: int = 256 * 1024 * 1024
    lease_ms: int = 5000  # How long a follower's answer lets its active act.
    snapshot_bytes_per_s: int = 64 * 1024 * 1024  # The rate of a pod's copies for learners.
    replica_timeout_ms: int = 10_000  # A follower may take no entries for so long.


class PodAddress(Wire, frozen=True, kw_only=True):
    """The addresses of one pod: base URLs without a trailing slash."""

    ordinal: Ordinal
    name: PodName
    query: str
    changelog: str


class StoreAssignment(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """The placement of a store, which the operator sends to every pod.

    `resource_uid` is the uid of the resource; a store that adopted volumes has another store id.
    `incarnation` is the process of the pod on whose report the assignment rests, `generation` that
    of the resource whose spec it carries out; 0 says nothing. A program of an older version knows
    no such members: over HTTP they are headers, and no pod keeps them on its volume.
    """

    definition: StoreDefinition
    settings: StoreSettings
    pods: tuple[PodAddress, ...]
    partitions: tuple[PartitionConfiguration, ...]
    resource_uid: str = ""
    incarnation: str = ""
    generation: int = 0

    @property
    def plain(self) -> "StoreAssignment":
        """The assignment without the members that are headers."""
        return msgspec.structs.replace(self, resource_uid="", incarnation="", generation=0)

    def __post_init__(self) -> None:
        """Raises MalformedRequestError unless every partition is placed on known pods."""
        if [entry.partition for entry in self.partitions] != list(
            range(self.definition.partitions)
        ):
            raise MalformedRequestError("an assignment lists every partition once, in order")
        known = {pod.ordinal for pod in self.pods}
        if any(not set(entry.replicas) <= known for entry in self.partitions):
            raise MalformedRequestError("a replica is placed on a pod that has no address")
