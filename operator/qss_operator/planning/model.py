"""What the planner sees, the steps it may ask for, and the status it writes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from qss_core.model import (
    Epoch,
    Ordinal,
    PartitionConfiguration,
    PartitionId,
    PodAddress,
    Sequence,
    StoreAssignment,
    StoreId,
    StoreName,
    Wire,
)
from qss_core.spec.resource import StoreSpec
from qss_core.wire.replica_reports import ReplicasReport

# --- The status, in exactly the CRD's shape.


class ConditionType(StrEnum):
    """What a condition is about."""

    READY = "Ready"
    PROGRESSING = "Progressing"
    DEGRADED = "Degraded"
    REBALANCING = "Rebalancing"
    SCALE_DOWN_BLOCKED = "ScaleDownBlocked"
    STORAGE_RESIZING = "StorageResizing"
    FORMAT_MIGRATING = "FormatMigrating"


class ConditionStatus(StrEnum):
    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(Wire, frozen=True, kw_only=True):
    """One condition; `reason` is for programs, `message` says why and what to do next."""

    type: ConditionType
    status: ConditionStatus
    reason: str
    message: str
    last_transition_time: str
    observed_generation: int


class PodEndpoints(Wire, frozen=True, kw_only=True):
    query: str
    changelog: str


class Endpoints(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """Where a store listens; `pods` only where no template can say it."""

    query: str | None = None
    changelog: str | None = None
    pod_query: str | None = None
    pod_changelog: str | None = None
    pods: tuple[PodEndpoints, ...] = ()


class Moves(Wire, frozen=True, kw_only=True):
    """How many replicas move, and how many will."""

    running: int
    pending: int


class StoreStatus(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """`status` of the resource; a member that is None is absent."""

    observed_generation: int | None = None
    store_id: StoreId | None = None
    replicas: int | None = None
    ready_replicas: int | None = None
    selector: str | None = None
    format: str | None = None
    migrated: str | None = None
    ready: str | None = None
    assigned: str | None = None
    volume_size: str | None = None
    moving: str | None = None
    endpoints: Endpoints | None = None
    assignment: tuple[PartitionConfiguration, ...] | None = None
    moves: Moves | None = None
    conditions: tuple[Condition, ...] | None = None

    def condition(self, kind: ConditionType) -> Condition | None:
        """The condition of a type."""
        return next((entry for entry in self.conditions or () if entry.type is kind), None)


# --- What is seen.


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreResource:
    """A validated resource as it is stored; `version` guards every write of its status."""

    name: StoreName
    uid: str
    generation: int
    version: str
    spec: StoreSpec
    adopt_volumes: str | None = None
    accept_data_loss: str | None = None
    status: StoreStatus | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodState:
    """A pod as the cluster knows it; `trouble` is why it does not run, in words.

    `if_silent` is what to say of a pod that was ready, should it not answer.

    `has_data` says whether its volume holds anything; None where the cluster cannot look inside.
    """

    address: PodAddress
    is_running: bool
    has_data: bool | None
    zone: str = ""
    trouble: str | None = None
    if_silent: str | None = None
    control: PodAddress | None = None  # Where the operator reaches it, if not at its address.

    @property
    def ordinal(self) -> Ordinal:
        """The pod's number within the store."""
        return self.address.ordinal

    @property
    def reached_at(self) -> PodAddress:
        """Where the operator calls it."""
        return self.control or self.address


Finding = tuple[ConditionStatus, str, str]  # Status, reason, message.


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """The pods of a store by ordinal, and how many were asked for last.

    `volume_size` is the largest size that a volume has, and None where volumes have no size.
    `findings` is what the cluster itself is doing (a restart, a volume that grows), by condition.
    `local_option` is what `qss` commands need to find a local cluster; None on Kubernetes.
    """

    replicas: int
    pods: tuple[PodState, ...] = ()
    endpoints: Endpoints = field(default_factory=Endpoints)
    selector: str | None = None
    volume_size: str | None = None
    findings: Mapping[ConditionType, Finding] = field(default_factory=dict)
    local_option: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SentAssignment:
    """What a pod was told last, and which process of it was told."""

    incarnation: str
    assignment: StoreAssignment


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """What could not be done; reason and message of a condition."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One snapshot: all that a plan is made from. A pod that did not answer has no report."""

    resource: StoreResource
    cluster: ClusterState
    reports: Mapping[Ordinal, ReplicasReport] = field(default_factory=dict)
    sent: Mapping[Ordinal, SentAssignment] = field(default_factory=dict)
    completed: Sequence | None = None  # That the coordinator told in the round before.
    troubles: tuple[Trouble, ...] = ()  # What the loop tried and was refused. No plan needs it.


# --- What may be done.


@dataclass(frozen=True, slots=True, kw_only=True)
class SetReplicas:
    """Ask the cluster for this many pods."""

    replicas: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishAssignment:
    """Write these configurations into the status, before any pod is told of them."""

    store_id: StoreId
    partitions: tuple[PartitionConfiguration, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SendAssignment:
    """Tell one pod the published assignment."""

    ordinal: Ordinal
    assignment: StoreAssignment


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptLoss:
    """Tell a pod that a person goes on without the batches that its partition lacks.

    With `assignment` its volume is gone, and all partitions of it that were there are lost.
    """

    ordinal: Ordinal
    store_id: StoreId
    partition: PartitionId
    epoch: Epoch
    assignment: StoreAssignment | None = None


Step = SetReplicas | PublishAssignment | SendAssignment | AcceptLoss
