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
from dataclasses import replace as changed

from qss_core.model import Ordinal, PartitionConfiguration
from qss_core.text import listed
from qss_operator.planning.membership.failover import failover_after_s, is_under_way
from qss_operator.planning.membership.restart_steps import (
    REPLACING_VOLUME,
    Entries,
    NextRestart,
    after_leaving,
    late_replicas,
    named_partitions,
    partitions_of,
    pods_of,
    restarting,
    waiting,
)
from qss_operator.planning.membership.retirements import has_more
from qss_operator.planning.membership.standby_state import is_sound_elsewhere, staying_reports
from qss_operator.planning.model import ConditionStatus, Observation, PodState, replica_of
from qss_operator.planning.scaling import wanted_replicas

_SILENT_S = 30.0  # After that a restart, which may mend it, waits for no answer of a Ready pod.
PAUSED = "Paused"


def next_restart(observation: Observation, entries: Entries | None) -> NextRestart:
    """The next restart, by the configurations that hold, without partitions that pods dispute.

    While they are not known (None), only a broken pod is restarted.

    Rules: NotPaused, NewPodsStart, BrokenFirst, EveryOtherPodServes, SilentFirst,
    RestartedPodsInSync, OtherReplicaInSync.

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
    return waiting(message, is_refused=True)


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
    if (why := observation.cluster.holds_restarts) is not None:
        message = f"{done}; the others wait, since a new pod could not start: {why}"
        return NextRestart(finding=(ConditionStatus.FALSE, PAUSED, message))
    if leaving := [pod.address.name for pod in pods if pod.is_leaving and not pod.is_stuck]:
        return waiting(f"{done}; {leaving[0]} is stopping")
    stuck = [pod for pod in pods if pod.is_stuck]
    others = [pod for pod in pods if not pod.is_stuck]
    broken = [pod for pod in old if pod in others and _is_broken(observation, pod)]
    # A pod that serves nothing loses nothing by a restart, and the change may mend it.
    if not all(_serves(observation, pod) for pod in pods if not pod.is_outdated):
        broken = [pod for pod in broken if not _has_last_copy(pod, entries or {})]
    if broken:
        return restarting(broken[-1], done)
    if entries is None:
        return waiting(f"{done}; the others wait until the assignment is known")
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
        return waiting(f"{done}; the others wait until each partition has another replica in sync")
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
        return waiting(f"{done}; rule EveryOtherPodServes: {held_up}")
    if not old:
        return waiting(done)
    actives = Counter(entry.active for entry in entries.values())
    # The pod that was emptied already; else the one that hands the fewest actives over.
    alone = {entry.in_sync[0] for entry in entries.values() if _is_short(entry)}
    # While a pod is silent nothing moves: it goes first, and alone until it answers.
    silent = [one for one in old if observation.silent_s.get(one.ordinal, 0.0) >= _SILENT_S]
    late = {one: late_replicas(observation, entries, one) for one in old}
    pod = min(
        silent or old,
        key=lambda one: (one.ordinal in alone, bool(late[one]), actives[one.ordinal], -one.ordinal),
    )
    new = [one.ordinal for one in pods if not one.is_outdated]
    if not silent and (kept := [one for one in late[pod] if one[0] in new]):
        told = f"{pods_of(observation, kept)} is in sync again with {partitions_of(kept)}"
        return waiting(f"{done}; rule RestartedPodsInSync: waiting until {told}")
    if not silent:
        return after_leaving(observation, pod, entries, done)
    unheard = [one for one in pods if one not in old and one.ordinal not in observation.reports]
    told = f"{pod.address.name} does not answer the operator"
    if unheard:
        also = f"and {unheard[0].address.name}, which has the new template, does not either"
        return waiting(f"{done}; {told}, {also}: see the operator's access to the pods")
    return restarting(pod, f"{done}; {told}")


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
    late = late_replicas(observation, own, pod)
    if leaving:
        found = waiting(f"{done}; {leaving[0]} is stopping")
    elif late:
        told = f"waiting until {pods_of(observation, late)} is in sync with {partitions_of(late)}"
        found = waiting(f"{done}; {told}, before {pod.address.name} restarts")
    else:
        found = after_leaving(observation, pod, entries, done)
        newer = [one for one in own.values() if _is_newer(observation, one, pod)]
        if found.is_due and newer:
            told = f"{pod.address.name} has more than the active of {named_partitions(newer)}"
            found = waiting(f"{done}; {told}, whose volume went back", pod, stays_out=True)
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
    if (why := observation.cluster.holds_restarts) is not None:
        return f"a new pod could not start: {why}"
    if entries is None or len(entries) < spec.partitions:
        return "the assignment is not known"
    own = [entry for entry in entries.values() if pod.ordinal in entry.replicas]
    reports = staying_reports(observation)
    if only := [entry for entry in own if not is_sound_elsewhere(reports, pod.ordinal, entry)]:
        return f"no other replica of {named_partitions(only)} is in sync and sound"
    if unlike := [entry for entry in own if _is_unlike(observation, entry, pod.ordinal)]:
        return f"the replicas of {named_partitions(unlike)} differ"
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


# --- The state of pods


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
