"""The planner's types: the observation it gets, the steps it asks for, the status it makes."""

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
from qss_core.wire.replica_reports import ReplicaReport, ReplicasReport

# --- The status, in exactly the CRD's shape.


class ConditionType(StrEnum):
    """The type of a condition in the status."""

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
    """One condition: programs read `reason`, `message` tells people the cause and the remedy."""

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
    """The URLs of a store.

    On a local cluster `pods` lists the URLs of each pod; on Kubernetes `pod_query` and
    `pod_changelog` are templates.
    """

    query: str | None = None
    changelog: str | None = None
    pod_query: str | None = None
    pod_changelog: str | None = None
    pods: tuple[PodEndpoints, ...] = ()


class MovingReplica(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """A replica that is made on a pod or becomes the active there, and the bytes copied at least.

    `percent` rises in steps of ten, and `done_bytes` with it, so that few statuses are written.
    """

    partition: PartitionId
    pod: Ordinal
    state: str  # running or waiting.
    done_bytes: int | None = None
    total_bytes: int | None = None
    percent: int | None = None


class Moves(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """The numbers of moves that run and that wait, and the first replicas of them."""

    running: int
    pending: int
    replicas: tuple[MovingReplica, ...] = ()


Finding = tuple[ConditionStatus, str, str]  # Status, reason, message.
_MESSAGE_CHARS_MAX = 1024


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
    in_sync: str | None = None
    zones: str | None = None
    versions: str | None = None
    volume_size: str | None = None
    moving: str | None = None
    standbys: int | None = None
    endpoints: Endpoints | None = None
    assignment: tuple[PartitionConfiguration, ...] | None = None
    moves: Moves | None = None
    conditions: tuple[Condition, ...] | None = None

    def condition(self, kind: ConditionType) -> Condition | None:
        """The condition of a type."""
        return next((entry for entry in self.conditions or () if entry.type is kind), None)

    def dated(self, kind: ConditionType, finding: Finding, generation: int, now: str) -> Condition:
        """A finding as a condition: of `now` where the condition's status changes.

        `now` is in RFC 3339.
        """
        status, reason, message = finding
        old = self.condition(kind)
        return Condition(
            type=kind,
            status=status,
            reason=reason,
            message=message[:_MESSAGE_CHARS_MAX],
            last_transition_time=old.last_transition_time if old and old.status is status else now,
            observed_generation=generation,
        )


# --- The input of a plan.


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
    actives: str | None = None
    restarted_at: str | None = None
    ignored_rules: str | None = None
    status: StoreStatus | None = None

    @property
    def store_id(self) -> StoreId:
        """The store's id: the resource's uid at first, or the id of the adopted volumes."""
        published = self.status.store_id if self.status else None
        return published or StoreId(self.adopt_volumes or self.uid)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodState:
    """A pod as the cluster knows it.

    `trouble` is the reason, as text, why the pod does not run. `if_silent` is the text shown as the
    pod's trouble if its containers were ready and it sent no report. `has_data` is true for a
    volume that is not empty, and None where the cluster cannot look inside.

    `uid` tells a pod from later ones of its name. `is_ready` is what the cluster itself finds, and
    None where it does not look. `is_outdated` is true for a pod with another template than the
    store's that may be restarted, `is_leaving` for one that is being ended, `is_stuck` where that
    takes far longer than it may. `deleted_volume` names the pod's volume where it was deleted: it
    is there until the pod ends.
    `is_cordoned` is true where the pod's node takes no new pods, as far as nodes may be read.
    """

    address: PodAddress
    is_running: bool
    has_data: bool | None
    zone: str = ""
    node: str = ""
    is_cordoned: bool = False
    version: str = ""  # The version of its image.
    trouble: str | None = None
    if_silent: str | None = None
    uid: str | None = None
    is_ready: bool | None = None
    is_outdated: bool = False
    is_leaving: bool = False
    is_stuck: bool = False
    deleted_volume: str | None = None
    control: PodAddress | None = None  # Where the operator reaches it, if not at its address.

    @property
    def ordinal(self) -> Ordinal:
        """The pod's number within the store."""
        return self.address.ordinal

    @property
    def is_old(self) -> bool:
        """Whether a restart would change the pod: it has an old template, or a deleted volume."""
        return self.is_outdated or self.deleted_volume is not None

    @property
    def reached_at(self) -> PodAddress:
        """The address at which the operator calls the pod."""
        return self.control or self.address


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """The pods of a store by ordinal; `replicas` is the number of pods that was requested last.

    `volume_size` is the size of the largest volume, and None where volumes have no size.
    `findings` are the cluster's own tasks (a growing volume), by condition. `holds_restarts` is the
    reason why a pod that was made anew could not start, where the cluster knows one.
    `local_option` is the option with which `qss` commands find a local cluster; None on Kubernetes.
    """

    replicas: int
    pods: tuple[PodState, ...] = ()
    endpoints: Endpoints = field(default_factory=Endpoints)
    selector: str | None = None
    volume_size: str | None = None
    findings: Mapping[ConditionType, Finding] = field(default_factory=dict)
    holds_restarts: str | None = None
    local_option: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SentAssignment:
    """The assignment that the operator sent last, and the incarnation of the pod that got it."""

    incarnation: str
    assignment: StoreAssignment


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """The reason and the message of a condition, for an action that failed."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The input of a plan, as seen at one moment. A pod that did not answer has no report."""

    resource: StoreResource
    cluster: ClusterState
    reports: Mapping[Ordinal, ReplicasReport] = field(default_factory=dict)
    sent: Mapping[Ordinal, SentAssignment] = field(default_factory=dict)
    # Seconds without a report, on the operator's own clock; a new operator begins to count anew.
    silent_s: Mapping[Ordinal, float] = field(default_factory=dict)
    completed: Sequence | None = None  # From the coordinator's report of the round before.
    refused_restart: str | None = None  # The uid of a pod whose restart is not tried again yet.
    troubles: tuple[Trouble, ...] = ()  # Refused actions of earlier rounds; only the status shows.
    moves_wait: bool = False  # The last changes of a move were published a moment ago.


# --- The steps of a plan.


@dataclass(frozen=True, slots=True, kw_only=True)
class SetReplicas:
    """Have the cluster run this many pods."""

    replicas: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishAssignment:
    """Write these configurations into the status, before any pod gets them."""

    store_id: StoreId
    partitions: tuple[PartitionConfiguration, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SendAssignment:
    """Send the published assignment to one pod."""

    ordinal: Ordinal
    assignment: StoreAssignment


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPod:
    """Have the cluster end a pod, and start it with the present template."""

    pod: PodState


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptLoss:
    """Tell a pod that a person accepted the loss of batches of its partition.

    `assignment` is set when the pod lost its assignment: the pod takes this one, and the partitions
    that its volume does not hold are lost.
    """

    ordinal: Ordinal
    store_id: StoreId
    partition: PartitionId
    epoch: Epoch
    assignment: StoreAssignment | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetireReplica:
    """Have a pod delete a replica, for which the configuration of this epoch has no role.

    All pods with a role in that epoch have taken the configuration.
    """

    ordinal: Ordinal
    store_id: StoreId
    partition: PartitionId
    epoch: Epoch


Step = SetReplicas | PublishAssignment | SendAssignment | RestartPod | AcceptLoss | RetireReplica


def replica_of(
    reports: Mapping[Ordinal, ReplicasReport], pod: Ordinal, entry: PartitionConfiguration
) -> ReplicaReport | None:
    """A pod's report on its replica, where it holds exactly this configuration."""
    report = reports.get(pod)
    if report is None:
        return None
    return next((one for one in report.replicas if one.configuration == entry), None)
