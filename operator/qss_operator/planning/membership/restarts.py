"""Chooses the next pod to restart after a change of the pods' template. Pure.

One pod restarts at a time, while all others serve. Before it ends, its actives are handed over, and
no partition counts it as in sync: then no writer waits for the pod while it starts again.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from qss_core.model import Ordinal, PartitionConfiguration, PartitionId
from qss_core.text import listed
from qss_operator.planning.membership.failover import replica_of
from qss_operator.planning.model import ConditionStatus, Finding, Observation, PodState

ROLLING_UPDATE = "RollingUpdate"
PAUSED = "Paused"

Entries = Mapping[PartitionId, PartitionConfiguration]


@dataclass(frozen=True, slots=True, kw_only=True)
class NextRestart:
    """The pod that restarts next, and the finding for the status.

    Its actives go elsewhere first, then `leaves_sync` is true, and at last `is_due`.
    """

    pod: PodState | None = None
    leaves_sync: bool = False
    is_due: bool = False
    finding: Finding | None = None

    @property
    def ordinal(self) -> Ordinal | None:
        """The number of the pod that restarts next."""
        return None if self.pod is None else self.pod.ordinal


def next_restart(observation: Observation, entries: Entries) -> NextRestart:
    """The next restart, by the configurations that hold.

    Rules: NotPaused, BrokenFirst, EveryOtherPodServes, OtherReplicaInSync.
    """
    wanted = observation.cluster.replicas
    pods = [pod for pod in observation.cluster.pods if pod.ordinal < wanted]
    old = [pod for pod in pods if pod.is_outdated]
    if not old:
        return NextRestart()
    done = f"{len(pods) - len(old)} of {wanted} pods have the new template"
    if observation.resource.spec.rebalance.paused:
        message = f"{done}; rebalance.paused keeps the others from being restarted"
        return NextRestart(finding=(ConditionStatus.FALSE, PAUSED, message))
    leaving = [pod.address.name for pod in pods if pod.is_leaving]
    if leaving:
        return _wait(f"{done}; {leaving[0]} is stopping")
    # A restart costs a pod that does not serve nothing, and the change may mend it.
    broken = [pod for pod in old if not _serves(observation, pod)]
    if broken:
        return _restart(broken[-1], done)
    waiting = [pod.address.name for pod in pods if not _serves(observation, pod)]
    if waiting:
        return _wait(f"{done}; rule EveryOtherPodServes: waiting for {waiting[0]}")
    actives = Counter(entry.active for entry in entries.values())
    # The pod that was emptied already; else the one that hands the fewest actives over.
    pod = min(old, key=lambda one: (actives[one.ordinal], -one.ordinal))
    return _after_leaving(observation, pod, entries, done)


def _after_leaving(
    observation: Observation, pod: PodState, entries: Entries, done: str
) -> NextRestart:
    """The pod's restart, or the next part of what comes before it."""
    name, number = pod.address.name, pod.ordinal
    kept = [one for one in entries.values() if number in one.replicas and len(one.replicas) > 1]
    counted = [entry for entry in kept if number in entry.in_sync]
    if alone := [entry for entry in counted if len(entry.in_sync) == 1]:
        message = f"rule OtherReplicaInSync: waiting for another replica of {_named(alone)}"
        return _wait(f"{done}; {message} before {name} restarts", pod)
    if led := [entry for entry in counted if entry.active == number]:
        message = f"{name} hands over its actives of {_named(led)}, to pods that can act at once"
        return _wait(f"{done}; {message}", pod)
    if counted:
        message = f"{done}; {name} leaves the in-sync replicas of {_named(counted)}"
        return _wait(message, pod, leaves_sync=True)
    if late := [entry for entry in kept if not _is_served(observation, entry)]:
        return _wait(f"{done}; {name} waits until the others serve {_named(late)}", pod)
    return _restart(pod, done)


def _serves(observation: Observation, pod: PodState) -> bool:
    """Whether a pod serves, by its own report, or by the cluster where it does not report."""
    report = observation.reports.get(pod.ordinal)
    if report is None:
        return pod.is_ready is True
    return report.ready and pod.is_ready is not False


def _is_served(observation: Observation, entry: PartitionConfiguration) -> bool:
    active = replica_of(observation.reports, entry.active, entry)
    return active is not None and active.state == "serving"


def _named(entries: list[PartitionConfiguration]) -> str:
    numbers = listed([str(entry.partition) for entry in entries])
    return f"partition{'s' if len(entries) > 1 else ''} {numbers}"


def _wait(message: str, pod: PodState | None = None, *, leaves_sync: bool = False) -> NextRestart:
    finding = (ConditionStatus.TRUE, ROLLING_UPDATE, message)
    return NextRestart(pod=pod, leaves_sync=leaves_sync, finding=finding)


def _restart(pod: PodState, done: str) -> NextRestart:
    message = f"{done}; restarting {pod.address.name}"
    return NextRestart(
        pod=pod, is_due=True, finding=(ConditionStatus.TRUE, ROLLING_UPDATE, message)
    )
