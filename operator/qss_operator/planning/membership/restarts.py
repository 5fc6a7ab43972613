"""Chooses the next pod to restart after a change of the pods' template. Pure.

One pod restarts at a time, while all others serve and the restarted pods are in sync again. Before
it ends, its actives are handed over, and no partition counts it as in sync: no writer waits.

A pod that serves nothing goes first, at once. It stays while it has the only in-sync copy of a
partition of several replicas and a pod of the new template does not serve: the fault may be the new
template's. Without standbys every pod has only copies, and a restart mends a broken pod.

A pod whose volume is deleted restarts, too, where others have its data: it then gets a new volume.
Nothing else restarts before that: no other copy may be left.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import replace as changed

from qss_core.model import Ordinal, PartitionConfiguration, PartitionId, Role
from qss_core.text import listed
from qss_operator.planning.membership.failover import failover_after_s, is_under_way
from qss_operator.planning.membership.replacement import replaced_pods
from qss_operator.planning.membership.retirements import has_more
from qss_operator.planning.membership.standby_state import is_sound_elsewhere, staying_reports
from qss_operator.planning.model import ConditionStatus, Finding, Observation, PodState, replica_of
from qss_operator.planning.scaling import wanted_replicas

_SILENT_S = 30.0  # After that a restart, which may mend it, waits for no answer of a Ready pod.
ROLLING_UPDATE = "RollingUpdate"
REPLACING_VOLUME = "ReplacingVolume"
PAUSED = "Paused"

Entries = Mapping[PartitionId, PartitionConfiguration]


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


def next_restart(observation: Observation, entries: Entries | None) -> NextRestart:
    """The next restart, by the configurations that hold, without partitions that pods dispute.

    While they are not known (None), only a broken pod is restarted.

    Rules: NotPaused, BrokenFirst, EveryOtherPodServes, SilentFirst, RestartedPodsInSync,
    OtherReplicaInSync.

    A pod whose restart was refused counts as any other one, until the restart is tried again: its
    replicas join the in-sync ones. Actives that a person wants on it stay away: each try would hand
    them over again.
    """
    # A pod that does not end gets its new volume when it has gone: the roll goes past it.
    deleted = [
        pod
        for pod in observation.cluster.pods
        if pod.deleted_volume is not None and not pod.is_stuck
    ]
    if deleted:
        found = _next_with_deleted_volume(observation, deleted, entries)
    else:
        found = _next_restart(observation, entries)
    refused = observation.refused_restart
    if refused is None or found.pod is None or found.pod.uid != refused:
        return found
    message = f"the restart of {found.pod.address.name} was refused and is tried again"
    return _wait(message, is_refused=True)


def _next_restart(observation: Observation, entries: Entries | None) -> NextRestart:
    wanted = min(observation.cluster.replicas, wanted_replicas(observation))
    pods = [pod for pod in observation.cluster.pods if pod.ordinal < wanted]
    old = [pod for pod in pods if pod.is_outdated]
    if not old:
        return NextRestart()
    done = f"{len(pods) - len(old)} of {wanted} pods have the new template"
    if observation.resource.spec.rebalance.paused:
        message = f"{done}; rebalance.paused keeps the others from being restarted"
        return NextRestart(finding=(ConditionStatus.FALSE, PAUSED, message))
    if leaving := [pod.address.name for pod in pods if pod.is_leaving and not pod.is_stuck]:
        return _wait(f"{done}; {leaving[0]} is stopping")
    stuck = [pod for pod in pods if pod.is_stuck]
    others = [pod for pod in pods if not pod.is_stuck]
    broken = [pod for pod in old if pod in others and _is_broken(observation, pod)]
    # A restart costs a pod that serves nothing nothing, and the change may mend it.
    if not all(_serves(observation, pod) for pod in pods if not pod.is_outdated):
        broken = [pod for pod in broken if not _has_last_copy(pod, entries or {})]
    if broken:
        return _restart(broken[-1], done)
    if entries is None:
        return _wait(f"{done}; the others wait until the assignment is known")
    if not stuck:
        return _next_of(observation, others, old, entries, done)
    names = listed([pod.address.name for pod in stuck])
    done = f"{done}; {names} should have stopped long ago, and is not waited for"
    return changed(_next_beside_stuck(observation, others, entries, done), hands_over=True)


def _next_beside_stuck(
    observation: Observation, pods: list[PodState], entries: Entries, done: str
) -> NextRestart:
    """The next restart while a pod does not end: of a pod whose data others have, too.

    The node of the stuck pod has no power, or is cut off, and may stay so.
    """
    old = [pod for pod in pods if pod.is_outdated]
    # The stuck pod may answer still, and ends without a further word.
    reports = staying_reports(observation)
    free = [
        pod
        for pod in old
        if all(
            is_sound_elsewhere(reports, pod.ordinal, entry)
            for entry in entries.values()
            if pod.ordinal in entry.replicas
        )
    ]
    if old and not free:
        return _wait(f"{done}; the others wait until each partition has another replica in sync")
    return _next_of(observation, pods, free, entries, done)


def _next_of(
    observation: Observation,
    pods: list[PodState],
    old: list[PodState],
    entries: Entries,
    done: str,
) -> NextRestart:
    """The next restart of the `old` ones of the pods, none of which is broken."""
    if held_up := _not_serving(observation, pods):
        return _wait(f"{done}; rule EveryOtherPodServes: {held_up}")
    if not old:
        return _wait(done)
    actives = Counter(entry.active for entry in entries.values())
    # The pod that was emptied already; else the one that hands the fewest actives over.
    alone = {entry.in_sync[0] for entry in entries.values() if _is_short(entry)}
    # While a pod is silent nothing moves: it goes first, and alone until it answers.
    silent = [one for one in old if observation.silent_s.get(one.ordinal, 0.0) >= _SILENT_S]
    late = {one: _late(observation, entries, one) for one in old}
    pod = min(
        silent or old,
        key=lambda one: (one.ordinal in alone, bool(late[one]), actives[one.ordinal], -one.ordinal),
    )
    new = [one.ordinal for one in pods if not one.is_outdated]
    if not silent and (kept := [one for one in late[pod] if one[0] in new]):
        told = f"{_names(observation, kept)} is in sync again with {_named_of(kept)}"
        return _wait(f"{done}; rule RestartedPodsInSync: waiting until {told}")
    if not silent:
        return _after_leaving(observation, pod, entries, done)
    unheard = [one for one in pods if one not in old and one.ordinal not in observation.reports]
    told = f"{pod.address.name} does not answer the operator"
    if unheard:
        also = f"and {unheard[0].address.name}, which has the new template, does not either"
        return _wait(f"{done}; {told}, {also}: see the operator's access to the pods")
    return _restart(pod, f"{done}; {told}")


# --- Pods whose volumes are deleted


def _next_with_deleted_volume(
    observation: Observation, deleted: list[PodState], entries: Entries | None
) -> NextRestart:
    """The next restart that gives a pod a new volume; none where a person has to decide."""
    mended = [pod for pod in deleted if why_data_would_be_lost(observation, pod, entries) is None]
    if entries is None or not mended:
        return NextRestart()
    counts = Counter(one for entry in entries.values() for one in entry.in_sync)
    pod = min(mended, key=lambda one: (counts[one.ordinal], one.ordinal))
    done = f"{pod.deleted_volume} is deleted"
    leaving = [
        one.address.name for one in observation.cluster.pods if one.is_leaving and not one.is_stuck
    ]
    own = {number: one for number, one in entries.items() if pod.ordinal in one.replicas}
    late = _late(observation, own, pod)
    if leaving:
        found = _wait(f"{done}; {leaving[0]} is stopping")
    elif late:
        told = f"waiting until {_names(observation, late)} is in sync with {_named_of(late)}"
        found = _wait(f"{done}; {told}, before {pod.address.name} restarts")
    else:
        found = _after_leaving(observation, pod, entries, done)
        newer = [one for one in own.values() if _is_newer(observation, one, pod)]
        if found.is_due and newer:
            told = f"{pod.address.name} has more than the active of {_named(newer)}"
            found = _wait(f"{done}; {told}, whose volume went back", pod, stays_out=True)
    assert found.finding is not None, "a restart is told"
    finding = (ConditionStatus.TRUE, REPLACING_VOLUME, found.finding[2])
    return changed(found, hands_over=True, finding=finding)


def why_data_would_be_lost(
    observation: Observation, pod: PodState, entries: Entries | None
) -> str | None:
    """Why a pod whose volume is deleted does not restart; None where other pods have its data."""
    spec = observation.resource.spec
    if wanted_replicas(observation) == 0:
        return "spec.replicas is 0"
    if spec.rebalance.paused:
        return "rebalance.paused is true"
    if entries is None or len(entries) < spec.partitions:
        return "the assignment is not known"
    own = [entry for entry in entries.values() if pod.ordinal in entry.replicas]
    reports = staying_reports(observation)
    if only := [entry for entry in own if not is_sound_elsewhere(reports, pod.ordinal, entry)]:
        return f"no other replica of {_named(only)} is in sync and sound"
    if unlike := [entry for entry in own if _is_unlike(observation, entry, pod.ordinal)]:
        return f"the replicas of {_named(unlike)} differ"
    report = observation.reports.get(pod.ordinal)
    held = set() if report is None else {one.configuration.partition for one in report.replicas}
    held |= set() if report is None else {one.partition for one in report.lost}
    if left := sorted(number for number in held if number not in {one.partition for one in own}):
        return f"{pod.address.name} has left partition {listed([str(one) for one in left])}"
    return None


def _is_unlike(observation: Observation, entry: PartitionConfiguration, pod: Ordinal) -> bool:
    report = observation.reports.get(entry.active)
    told = () if report is None else report.replicas
    return any(
        one.unlike is not None and pod in one.unlike.pods
        for one in told
        if one.configuration.partition == entry.partition
    )


def _is_newer(observation: Observation, entry: PartitionConfiguration, pod: PodState) -> bool:
    """Whether a pod's replica has entries that its active lacks."""
    active = replica_of(observation.reports, entry.active, entry)
    own = replica_of(observation.reports, pod.ordinal, entry)
    return active is not None and own is not None and has_more(own, active)


# --- What a restart waits for


def _late(
    observation: Observation, entries: Entries, pod: PodState
) -> list[tuple[Ordinal, PartitionConfiguration]]:
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


def _names(observation: Observation, late: list[tuple[Ordinal, PartitionConfiguration]]) -> str:
    return listed(
        [f"{observation.resource.name}-{pod}" for pod in sorted({one for one, _ in late})]
    )


def _named_of(late: list[tuple[Ordinal, PartitionConfiguration]]) -> str:
    return _named(list({entry.partition: entry for _, entry in late}.values()))


def _is_short(entry: PartitionConfiguration) -> bool:
    """Whether one replica of several is in sync."""
    return len(entry.in_sync) == 1 < len(entry.replicas)


def _has_last_copy(pod: PodState, entries: Entries) -> bool:
    return any(_is_short(one) and one.in_sync == (pod.ordinal,) for one in entries.values())


def _is_broken(observation: Observation, pod: PodState) -> bool:
    """Whether a pod serves nothing, and not for a moment only."""
    report = observation.reports.get(pod.ordinal)
    if not pod.is_running:
        return True
    if report is None:
        silent_s = observation.silent_s.get(pod.ordinal, 0.0)
        return pod.is_ready is not True and silent_s >= failover_after_s(observation)
    return not report.ready and not any(is_under_way(one) for one in report.replicas)


def _after_leaving(
    observation: Observation, pod: PodState, entries: Entries, done: str
) -> NextRestart:
    """The pod's restart, or the next step that has to come before it."""
    name, number = pod.address.name, pod.ordinal
    kept = [one for one in entries.values() if number in one.replicas and len(one.replicas) > 1]
    counted = [entry for entry in kept if number in entry.in_sync]
    if alone := [entry for entry in counted if len(entry.in_sync) == 1]:
        message = f"rule OtherReplicaInSync: waiting for another replica of {_named(alone)}"
        return _wait(f"{done}; {message} before {name} restarts", pod)
    if led := [entry for entry in counted if entry.active == number]:
        message = f"{name} hands over its actives of {_named(led)}, to pods that can act at once"
        if left := max(_left_to_apply(observation, entry) for entry in led):
            message = f"{message}; they have up to {left} entries left to apply"
        return _wait(f"{done}; {message}", pod)
    if counted:
        message = f"{done}; {name} leaves the in-sync replicas of {_named(counted)}"
        return _wait(message, pod, leaves_sync=True, stays_out=True)
    if late := [entry for entry in kept if not _is_served(observation, entry)]:
        message = f"{done}; {name} waits until the others serve {_named(late)}"
        return _wait(message, pod, stays_out=True)
    return _restart(pod, done)


def _left_to_apply(observation: Observation, entry: PartitionConfiguration) -> int:
    """The fewest entries that an in-sync standby has yet to apply; 0 where none reports."""
    found = [replica_of(observation.reports, pod, entry) for pod in set(entry.in_sync)]
    lags = [
        one.end_offset - one.applied_offset
        for one in found
        if one is not None and one.role is not Role.ACTIVE
    ]
    return min(lags, default=0)


def _serves(observation: Observation, pod: PodState) -> bool:
    """Whether a pod serves, by its own report, or by the cluster where it does not report."""
    report = observation.reports.get(pod.ordinal)
    if report is None:
        return pod.is_ready is True
    return report.ready and pod.is_ready is not False


def _not_serving(observation: Observation, pods: list[PodState]) -> str | None:
    """The first pod that does not serve; None where all do.

    A pod of an older version says that it serves without the partitions that it cannot open. Where
    the new template has that version, the fault is the template's.
    """
    told = [f"waiting for {pod.address.name}" for pod in pods if not _serves(observation, pod)]
    renewed = [pod.ordinal for pod in pods if not pod.is_outdated]
    told += [
        f"{report.pod} runs an older version, and cannot open partition {lost.partition}: "
        f"{lost.error}. Use the newer image again"
        for report in observation.reports.values()
        if report.ordinal in renewed and not report.replicates
        for lost in report.lost
        if not lost.is_waiting
    ]
    return told[0] if told else None


def _is_served(observation: Observation, entry: PartitionConfiguration) -> bool:
    active = replica_of(observation.reports, entry.active, entry)
    return active is not None and active.state == "serving"


def _named(entries: list[PartitionConfiguration]) -> str:
    numbers = listed([str(entry.partition) for entry in entries])
    return f"partition{'s' if len(entries) > 1 else ''} {numbers}"


def _wait(message: str, pod: PodState | None = None, **state: bool) -> NextRestart:
    finding = (ConditionStatus.TRUE, ROLLING_UPDATE, message)
    return NextRestart(pod=pod, finding=finding, **state)


def _restart(pod: PodState, done: str) -> NextRestart:
    message = f"{done}; restarting {pod.address.name}"
    return NextRestart(
        pod=pod,
        stays_out=True,
        is_due=True,
        finding=(ConditionStatus.TRUE, ROLLING_UPDATE, message),
    )
