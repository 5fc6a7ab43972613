"""The steps before a pod restarts, and the findings that tell them. Pure.

Its actives are handed over, then it leaves the in-sync replicas, and the others serve.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from qss_core.model import Ordinal, PartitionConfiguration, PartitionId, Role
from qss_core.text import listed
from qss_operator.planning.membership.replacement import replaced_pods
from qss_operator.planning.model import ConditionStatus, Finding, Observation, PodState, replica_of

ROLLING_UPDATE = "RollingUpdate"
REPLACING_VOLUME = "ReplacingVolume"

Entries = Mapping[PartitionId, PartitionConfiguration]
LateReplicas = list[tuple[Ordinal, PartitionConfiguration]]


@dataclass(frozen=True, slots=True, kw_only=True)
class NextRestart:
    """The pod that restarts next, and the finding for the status.

    Its actives go elsewhere first, then `leaves_sync` is true, and at last `is_due`. From then on
    it `stays_out`: it joins no in-sync set before it has restarted. Where it `hands_over`, that
    happens also while nothing moves.
    """

    pod: PodState | None = None
    leaves_sync: bool = False
    stays_out: bool = False
    is_due: bool = False
    hands_over: bool = False
    is_refused: bool = False  # The restart waits for its next try.
    finding: Finding | None = None

    @property
    def is_rolling(self) -> bool:
        """Whether pods are restarted one after the other."""
        return self.finding is not None and self.finding[1] in (ROLLING_UPDATE, REPLACING_VOLUME)

    @property
    def holds_up_pins(self) -> bool:
        """Whether the wishes for actives wait for a restart, also for the next try of one."""
        return self.pod is not None or self.is_refused

    @property
    def ordinal(self) -> Ordinal | None:
        """The number of the pod that restarts next."""
        return None if self.pod is None else self.pod.ordinal


def after_leaving(
    observation: Observation, pod: PodState, entries: Entries, done: str
) -> NextRestart:
    """The pod's restart, or the next step that has to come before it."""
    name, number = pod.address.name, pod.ordinal
    kept = [one for one in entries.values() if number in one.replicas and len(one.replicas) > 1]
    counted = [entry for entry in kept if number in entry.in_sync]
    if alone := [entry for entry in counted if len(entry.in_sync) == 1]:
        rule, where = "rule OtherReplicaInSync", named_partitions(alone)
        message = f"{rule}: waiting for another replica of {where} before {name} restarts"
        return waiting(f"{done}; {message}", pod)
    if led := [entry for entry in counted if entry.active == number]:
        where = named_partitions(led)
        message = f"{name} hands over its actives of {where}, to pods that can act at once"
        if left := max(_left_to_apply(observation, entry) for entry in led):
            message = f"{message}; they have up to {left} entries left to apply"
        return waiting(f"{done}; {message}", pod)
    if counted:
        message = f"{done}; {name} leaves the in-sync replicas of {named_partitions(counted)}"
        return waiting(message, pod, leaves_sync=True, stays_out=True)
    if late := [entry for entry in kept if not _is_served(observation, entry)]:
        message = f"{done}; {name} waits until the others serve {named_partitions(late)}"
        return waiting(message, pod, stays_out=True)
    return restarting(pod, done)


def _left_to_apply(observation: Observation, entry: PartitionConfiguration) -> int:
    """The fewest entries that an in-sync standby has yet to apply; 0 where none reports."""
    found = [replica_of(observation.reports, pod, entry) for pod in set(entry.in_sync)]
    lags = [
        one.end_offset - one.applied_offset
        for one in found
        if one is not None and one.role is not Role.ACTIVE
    ]
    return min(lags, default=0)


def _is_served(observation: Observation, entry: PartitionConfiguration) -> bool:
    active = replica_of(observation.reports, entry.active, entry)
    return active is not None and active.state == "serving"


def late_replicas(observation: Observation, entries: Entries, pod: PodState) -> LateReplicas:
    """The replicas of other pods that are not in sync, and are missing there.

    A replica that is on its way to another pod is not missing: the ones before it are in sync. No
    replica comes back on a pod that is lost, or while the active is on one.
    """
    copies = 1 + observation.resource.spec.effective_standbys
    gone = {one.ordinal for one in observation.cluster.pods if one.is_stuck}
    gone |= replaced_pods(observation)
    return [
        (late, entry)
        for entry in entries.values()
        if len({*entry.in_sync, *({pod.ordinal} & {*entry.replicas})}) < copies
        and entry.active not in gone
        for late in sorted({*entry.replicas} - {*entry.in_sync, pod.ordinal} - gone)
    ]


def pods_of(observation: Observation, late: LateReplicas) -> str:
    """The names of the pods that have these replicas."""
    return listed(
        [f"{observation.resource.name}-{pod}" for pod in sorted({one for one, _ in late})]
    )


def partitions_of(late: LateReplicas) -> str:
    """The numbers of the partitions that have these replicas."""
    return named_partitions(list({entry.partition: entry for _, entry in late}.values()))


def named_partitions(entries: list[PartitionConfiguration]) -> str:
    numbers = listed([str(entry.partition) for entry in entries])
    return f"partition{'s' if len(entries) > 1 else ''} {numbers}"


# --- Findings


def waiting(message: str, pod: PodState | None = None, **state: bool) -> NextRestart:
    finding = (ConditionStatus.TRUE, ROLLING_UPDATE, message)
    return NextRestart(pod=pod, finding=finding, **state)


def restarting(pod: PodState, done: str) -> NextRestart:
    message = f"{done}; restarting {pod.address.name}"
    return NextRestart(
        pod=pod,
        stays_out=True,
        is_due=True,
        finding=(ConditionStatus.TRUE, ROLLING_UPDATE, message),
    )
