"""Finds a learner that may go on with a partition where its in-sync pods lost the data. Pure.

A learner lacks the last entries at most, so it is better than an empty partition. `losses` lets a
person accept a loss without waiting only where no learner may turn out to have rows.
"""

from collections.abc import Iterable, Iterator, Mapping

from qss_core.model import Ordinal, PartitionConfiguration, PartitionId
from qss_core.text import by_reason
from qss_core.wire.losses import LostReplica
from qss_core.wire.replica_reports import ReplicaReport, ReplicasReport
from qss_operator.planning.model import Observation, replica_of

AWAY_S = 30.0  # Pods that are silent for less may just start.
SERVING = "serving"
_OPEN = ("opening", SERVING)


def fullest_learner(
    observation: Observation, entry: PartitionConfiguration
) -> tuple[Ordinal, ReplicaReport] | None:
    """The pod and report of the learner with the longest log, where in-sync pods lost the data.

    It has all but the last entries, so it is better than an empty partition. A replica that cannot
    be opened may be opened up to its damage, and one that takes no writes has more: there the
    learner needs all batches that were completed. None where it has no entries, or where an in-sync
    pod may still have its data.
    """
    learner = _longest_learner(observation, entry)
    lost = None if learner is None else _gone(observation, entry)
    if learner is None or lost is None:
        return None
    if all(one.is_misplaced for one in lost):
        return learner
    return learner if _has_all_completed(observation, entry, learner[1]) else None


def may_have_fuller_learner(observation: Observation, entry: PartitionConfiguration) -> bool:
    """Whether a learner may still turn out to have rows: an empty partition has to wait for it.

    Its pod has not answered yet, opens its replicas, or was not told this configuration. A pod
    whose volume is gone has none, and may wait for an accepted loss itself. The partition does not
    begin empty where its active's volume has a database, and lacks the assignment alone.
    """
    active = observation.reports.get(entry.active)
    if active is not None and entry.partition in active.unassigned:
        return False
    present = {pod.ordinal for pod in observation.cluster.pods}
    for pod in sorted((set(entry.replicas) - set(entry.in_sync)) & present):
        report = observation.reports.get(pod)
        if report is None:
            if observation.silent_s.get(pod, 0.0) < AWAY_S:
                return True
            continue
        is_of_store = report.store_id == observation.resource.store_id
        if not is_of_store and entry.partition not in report.unassigned:
            continue
        cannot_be_told = report.full_volume is not None and report.full_volume.is_full
        if cannot_be_told or any(one.partition == entry.partition for one in report.lost):
            continue
        held = [
            one.configuration
            for one in report.replicas
            if one.configuration.partition == entry.partition
        ]
        if held != [entry] if held else not report.ready:
            return True
    return False


def learners_message(observation: Observation, entries: Iterable[PartitionConfiguration]) -> str:
    """The fate of learners with rows after an accepted loss, as a sentence without its stop.

    Empty without any.
    """
    goes_on, given_up = list[tuple[PartitionId, str]](), list[tuple[PartitionId, str]]()
    for entry in entries:
        longest = _longest_learner(observation, entry)
        if longest is None or _gone(observation, entry) is None:
            continue
        led = fullest_learner(observation, entry) is not None
        (goes_on if led else given_up).append((entry.partition, _in_words(observation, longest)))
    told = [f"partition {numbers} goes on with {one}" for numbers, one in by_reason(goes_on)]
    told += [
        f"the rows of partition {numbers} on {one}, are given up (to go on with them instead, make "
        "that pod the partition's active in status.assignment, in the next epoch)"
        for numbers, one in by_reason(given_up)
    ]
    return f"After an accepted loss {'; '.join(told)}" if told else ""


def _in_words(observation: Observation, learner: tuple[Ordinal, ReplicaReport]) -> str:
    pod, replica = learner
    return f"{observation.reports[pod].pod}, which has sequence {replica.sequence}"


def _gone(observation: Observation, entry: PartitionConfiguration) -> list[LostReplica] | None:
    """The in-sync replicas that do not open or take no writes, where the others have no volume.

    None where an in-sync pod may still have its data. A pod that lost its assignment alone has it,
    and opens it with the acceptance.
    """
    reports, silent_s = observation.reports, observation.silent_s
    emptied = {
        pod
        for pod in entry.in_sync
        if pod in reports
        and reports[pod].store_id is None
        and entry.partition not in reports[pod].unassigned
    }
    found = {
        pod: lost_replica(reports.get(pod), entry) or _unwritable(reports.get(pod), entry)
        for pod in entry.in_sync
    }
    lost = {pod: one for pod, one in found.items() if one is not None}
    away = {pod for pod in entry.in_sync if silent_s.get(pod, 0.0) >= AWAY_S and not lost}
    if not (emptied or lost) or set(entry.in_sync) - emptied - lost.keys() - away:
        return None
    return list(lost.values())


def lost_replica(
    report: ReplicasReport | None, entry: PartitionConfiguration
) -> LostReplica | None:
    """A pod's report of a replica that does not open by itself any more."""
    told = () if report is None else report.lost
    found = (one for one in told if one.partition == entry.partition and not one.is_waiting)
    return next(found, None)


def _unwritable(report: ReplicasReport | None, entry: PartitionConfiguration) -> LostReplica | None:
    """A replica that takes no writes any more: its files are put aside with the acceptance."""
    if report is None or not is_damaged(entry, report):
        return None
    return LostReplica(partition=entry.partition, error="it takes no writes any more")


def _longest_learner(
    observation: Observation, entry: PartitionConfiguration
) -> tuple[Ordinal, ReplicaReport] | None:
    found = [
        (pod, replica)
        for pod in sorted(set(entry.replicas) - set(entry.in_sync))
        if (replica := replica_of(observation.reports, pod, entry)) is not None
        and replica.state in _OPEN
        and replica.end_offset > 0
        and not (replica.is_damaged or replica.has_damage)
    ]
    return max(found, key=lambda one: one[1].end_offset, default=None)


def _has_all_completed(
    observation: Observation, entry: PartitionConfiguration, learner: ReplicaReport
) -> bool:
    """Whether a learner has applied every batch that a writer may have been told as committed.

    Partition 0 tells the last one that is complete. A batch that all other actives have applied was
    perhaps acknowledged, too: its writer is answered before the log says that it is complete. Of
    partition 0 nobody tells that.
    """
    told = [one.coordinated for report in observation.reports.values() for one in report.replicas]
    known = [one for one in (observation.completed, *told) if one is not None]
    if not known or entry.partition == 0:
        return False
    others = [
        one.sequence
        for one in active_replicas(observation.reports)
        if one.configuration.partition != entry.partition and one.state == SERVING
    ]
    return learner.sequence >= max(*known, min(others, default=learner.sequence))


def active_replicas(reports: Mapping[Ordinal, ReplicasReport]) -> Iterator[ReplicaReport]:
    for report in reports.values():
        for replica in report.replicas:
            if replica.configuration.active == report.ordinal:
                yield replica


def is_damaged(entry: PartitionConfiguration, report: ReplicasReport) -> bool:
    return any(
        replica.is_damaged
        for replica in report.replicas
        if replica.configuration.partition == entry.partition
    )
