"""Finds partitions that lost data, and reads the losses that a person accepted.

The annotation `queryablestate.dev/accept-data-loss` names partitions with their epoch, as `3@7` or
`3@7,5@2`. A loss is accepted for one epoch: after the pod took the loss, the partition gets the
next epoch.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from qss_core.model import Epoch, Ordinal, PartitionConfiguration, PartitionId, Role
from qss_core.text import by_reason, listed
from qss_core.wire.losses import DataLoss, LostReplica
from qss_core.wire.replica_reports import ReplicaReport, ReplicasReport
from qss_operator.planning.annotations import ACCEPT_LOSS_ANNOTATION, how_to_annotate
from qss_operator.planning.model import Observation, replica_of

PARTITION_ROLLED_BACK = "PartitionRolledBack"
DATA_LOST = "DataLost"
_ACCEPTED = re.compile(r"\s*(0|[1-9][0-9]{0,3})@([1-9][0-9]{0,17})\s*")
AWAY_S = 30.0  # Pods that are silent for less may just start.
_BEHIND = "behind"
_OPEN = ("opening", "serving")
_SERVING = "serving"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lacking:
    """A partition that lacks batches, the pod of its active, and why, after "partition N"."""

    partition: PartitionId
    epoch: Epoch
    pod: Ordinal
    why: str
    is_open: bool
    is_misplaced: bool


def accepted_losses(observation: Observation) -> dict[PartitionId, Epoch]:
    """The accepted epochs by partition; empty where the annotation cannot be read."""
    return _parsed(observation.resource.accept_data_loss) or {}


def is_acceptance(text: str) -> bool:
    """Whether the annotation's value names partitions with their epochs."""
    return _parsed(text) is not None


def _parsed(text: str | None) -> dict[PartitionId, Epoch] | None:
    """The epochs by partition; None for text in another form."""
    if text is None:
        return {}
    parts = [_ACCEPTED.fullmatch(part) for part in text.split(",")]
    if not all(parts):
        return None
    return {PartitionId(int(part[1])): Epoch(int(part[2])) for part in parts if part is not None}


def with_taken_losses(
    observation: Observation, entry: PartitionConfiguration
) -> PartitionConfiguration:
    """The configuration, in its next epoch after its partition has taken the accepted loss.

    The annotation then names an old epoch: a person has to accept the next loss again.
    """
    if accepted_losses(observation).get(entry.partition) != entry.epoch:
        return entry
    report = observation.reports.get(entry.active)
    taken = report is not None and any(
        replica.accepted_in == entry.epoch
        for replica in report.replicas
        if replica.configuration.partition == entry.partition
    )
    return replace(entry, epoch=Epoch(entry.epoch + 1)) if taken else entry


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
        pod: _lost(reports.get(pod), entry) or _unwritable(reports.get(pod), entry)
        for pod in entry.in_sync
    }
    lost = {pod: one for pod, one in found.items() if one is not None}
    away = {pod for pod in entry.in_sync if silent_s.get(pod, 0.0) >= AWAY_S and not lost}
    if not (emptied or lost) or set(entry.in_sync) - emptied - lost.keys() - away:
        return None
    return list(lost.values())


def _lost(report: ReplicasReport | None, entry: PartitionConfiguration) -> LostReplica | None:
    """A pod's report of a replica that cannot be opened, for good."""
    told = () if report is None else report.lost
    found = (one for one in told if one.partition == entry.partition and not one.is_waiting)
    return next(found, None)


def _unwritable(report: ReplicasReport | None, entry: PartitionConfiguration) -> LostReplica | None:
    """A replica that takes no writes any more: its files are put aside with the acceptance."""
    if report is None or not _is_damaged(entry, report):
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
        for one in _actives(observation.reports)
        if one.configuration.partition != entry.partition and one.state == _SERVING
    ]
    return learner.sequence >= max(*known, min(others, default=learner.sequence))


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


def lacking(
    observation: Observation, partitions: tuple[PartitionConfiguration, ...]
) -> list[Lacking]:
    """The partitions whose active lacks completed batches, or cannot be opened."""
    found = []
    for entry in partitions:
        report = observation.reports.get(entry.active)
        if report is None:
            continue
        unopened = _why_unopened(entry, report, observation.completed)
        why = unopened or _why_behind_of(observation, entry, report)
        if why is not None:
            found.append(
                Lacking(
                    partition=entry.partition,
                    epoch=entry.epoch,
                    pod=entry.active,
                    why=why,
                    is_open=unopened is None and not _is_damaged(entry, report),
                    is_misplaced=any(
                        lost.partition == entry.partition and lost.is_misplaced
                        for lost in report.lost
                    ),
                )
            )
    return found


def to_accept(
    observation: Observation, partitions: tuple[PartitionConfiguration, ...]
) -> list[Lacking]:
    """The losses that a person has accepted; partition 0 first, since others depend on it."""
    accepted, entries = accepted_losses(observation), {one.partition: one for one in partitions}
    return [
        one
        for one in lacking(observation, partitions)
        if accepted.get(one.partition) == one.epoch
        if one.is_open or not may_have_fuller_learner(observation, entries[one.partition])
    ]


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


def misplaced_message(observation: Observation) -> str | None:
    """The pods with files of other replicas, with the first reason of each pod, or None."""
    told = {
        report.pod: f"{report.pod}: {lost.error}"
        for report in observation.reports.values()
        for lost in reversed(report.lost)
        if lost.is_misplaced
    }
    return "; ".join(told.values()) or None


def last_resort(observation: Observation, misplaced: Mapping[PartitionId, Epoch]) -> str:
    """Tells the cost of accepting a loss whose rows are in another place, and how to accept it."""
    return (
        "Only if the right volume or directory is gone for good: accepting the loss gives up all "
        f"rows of partition {listed([str(number) for number in sorted(misplaced)])}, which begins "
        f"empty: {how_to_accept(observation, misplaced)}"
    )


def how_to_accept(observation: Observation, lost: Mapping[PartitionId, Epoch]) -> str:
    """Tells how to accept the loss of these partitions, with the annotation's present value."""
    wanted = ",".join(f"{partition}@{epoch}" for partition, epoch in sorted(lost.items()))
    accepted = accepted_losses(observation)
    command = how_to_annotate(observation, ACCEPT_LOSS_ANNOTATION, wanted)
    given = observation.resource.accept_data_loss
    if given is None or all(accepted.get(number) == epoch for number, epoch in lost.items()):
        return command
    return f"{command} (it says {given[:80]!r})"


def waiting_message(
    observation: Observation, partitions: tuple[PartitionConfiguration, ...]
) -> str | None:
    """The partitions that their pods will try to open again, with the reasons, or None.

    Without replicas that are left: nobody reads them.
    """
    entries = {entry.partition: entry for entry in partitions}
    told = by_reason(
        (lost.partition, f"on {report.pod}: {lost.error}")
        for report in observation.reports.values()
        for lost in report.lost
        if lost.is_waiting
        if (entry := entries.get(lost.partition)) is None or entry.role_of(report.ordinal)
    )
    return "; ".join(f"partition {numbers} {why}" for numbers, why in told) or None


def losses_message(observation: Observation) -> str | None:
    """The accepted losses, until a batch replaces all rows, or None."""
    told = [
        f"partition {replica.configuration.partition} lacks the batches of sequence "
        f"{_range_of(loss)}, accepted in epoch {loss.epoch}"
        for replica in _actives(observation.reports)
        for loss in replica.losses
    ]
    if not told:
        return None
    return f"{'; '.join(told)}. Replace all rows of the store to make it whole"


def _range_of(loss: DataLoss) -> str:
    if loss.last < loss.first:
        return f"{loss.first} and later, if there were any"
    return str(loss.first) if loss.first == loss.last else f"{loss.first} to {loss.last}"


def _actives(reports: Mapping[Ordinal, ReplicasReport]) -> Iterator[ReplicaReport]:
    for report in reports.values():
        for replica in report.replicas:
            if replica.configuration.active == report.ordinal:
                yield replica


def _is_damaged(entry: PartitionConfiguration, report: ReplicasReport) -> bool:
    return any(
        replica.is_damaged
        for replica in report.replicas
        if replica.configuration.partition == entry.partition
    )


def _why_unopened(
    entry: PartitionConfiguration, report: ReplicasReport, completed: int | None
) -> str | None:
    if (lost := _lost(report, entry)) is None:
        return None
    held = f" (batches up to sequence {completed} were completed)" if completed else ""
    return f"on {report.pod} cannot be opened{held}: {lost.error}"


def _why_behind_of(
    observation: Observation, entry: PartitionConfiguration, report: ReplicasReport
) -> str | None:
    for replica in report.replicas:
        if replica.configuration.partition != entry.partition:
            continue
        if replica.is_damaged:
            why = f"on {report.pod} takes no batches any more: {replica.error}"
            if fullest_learner(observation, entry) is not None:
                return why
            return f"{why}; after you accept its loss, write its rows again"
        if replica.state == _BEHIND:
            return _why_behind(report, replica, replica.completed)
        # Every active has applied the batches that were complete in the round before; a standby
        # that becomes the active tells its own state until it has taken the epoch.
        before = observation.completed
        if before is not None and replica.sequence < before and _is_led(replica, entry):
            return _why_behind(report, replica, before)
    return None


def _is_led(replica: ReplicaReport, entry: PartitionConfiguration) -> bool:
    """Whether the report is of an active that has applied its log in the epoch that holds."""
    is_active = replica.role is Role.ACTIVE and replica.state == _SERVING
    return is_active and replica.configuration.epoch >= entry.epoch


def _why_behind(report: ReplicasReport, replica: ReplicaReport, completed: int | None) -> str:
    return (
        f"on {report.pod} holds sequence {replica.sequence}, and at least {completed} was "
        "completed: its volume went back"
    )
