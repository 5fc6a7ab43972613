"""Tells a person how to go on after volumes were lost, or single partitions of them. Pure."""

from collections.abc import Mapping, Sequence

from qss_core.model import PartitionConfiguration, PartitionId
from qss_core.text import by_reason, listed
from qss_operator.planning.assignment_state import KnownAssignment
from qss_operator.planning.fullest_learner import AWAY_S, fullest_learner, learners_message
from qss_operator.planning.losses import Lacking, how_to_accept, last_resort, misplaced_message
from qss_operator.planning.membership.retirements import left_with_more
from qss_operator.planning.missing_data import held_by
from qss_operator.planning.model import Observation, PodState


def emptied_message(
    observation: Observation, known: KnownAssignment, emptied: Sequence[PodState]
) -> str:
    """Tells a person how to go on after volumes were lost."""
    names = listed([pod.address.name for pod in emptied])
    pods = {pod.ordinal for pod in emptied}
    away = {one for one, seconds in observation.silent_s.items() if seconds >= AWAY_S}
    lost = {
        entry.partition: entry.epoch
        for pod in emptied
        for entry in held_by(known, pod)
        if not set(entry.in_sync) - pods - away
    }
    if not lost:
        return f"{names}: the volume is empty or incomplete; the other replicas take over"
    said = (
        f"{names}: the volume is empty or incomplete (its assignment.json is missing or cannot be "
        "read), and should hold the only copy of its partitions"
    )
    if misplaced := misplaced_message(observation):
        return f"{said}. {misplaced}. {last_resort(observation, lost)}"
    learners = learners_message(observation, known.certain)
    first = f"{learners}. " if learners else ""
    return (
        f"{said}. {first}Bring the volume or the file back, delete all of "
        f"the store's data to begin empty, or accept the loss: {how_to_accept(observation, lost)}"
    )


def missing_message(missing: Mapping[PodState, Sequence[PartitionId]]) -> str:
    """Tells a person how to mend single partitions that were lost, or that the status has moved."""
    lines = [
        f"{pod.address.name} does not hold partition {listed([str(n) for n in numbers])}"
        for pod, numbers in missing.items()
    ]
    return (
        f"{listed(lines)}, where the status places the data: bring the volume back, or correct the "
        "status. The operator creates no empty partition in its place"
    )


def lacking_message(
    observation: Observation, found: list[Lacking], partitions: tuple[PartitionConfiguration, ...]
) -> str:
    """Tells a person how to mend partitions that lack batches."""
    unopened = {one.partition for one in found if not one.is_open}
    entries = [entry for entry in partitions if entry.partition in unopened]
    led = {one.partition for one in entries if fullest_learner(observation, one) is not None}
    alike = by_reason((one.partition, one.why) for one in found)
    said = "; ".join(f"partition {numbers} {why}" for numbers, why in alike)
    misplaced = {one.partition: one.epoch for one in found if one.is_misplaced}
    lacked = {one.partition for one in found}
    own = tuple(entry for entry in partitions if entry.partition in lacked)
    told = (_away_message(observation, own), _left_message(observation, own))
    ways = [way for way in told if way]
    if lost := {one.partition: one.epoch for one in found if not one.is_misplaced}:
        command = how_to_accept(observation, lost)
        unread = [
            str(one.partition)
            for one in found
            if not (one.is_open or one.is_misplaced or one.partition in led)
        ]
        cost = f" (of partition {listed(unread)} it may be all rows)" if unread else ""
        ways.append(f"Bring the newer volume back, or accept the loss{cost}: {command}")
    if begun := {number: epoch for number, epoch in misplaced.items() if number not in led}:
        ways.append(last_resort(observation, begun))
    if kept := {number: epoch for number, epoch in misplaced.items() if number in led}:
        command = how_to_accept(observation, kept)
        ways.append(f"Only if the right volume is gone for good, accept the loss: {command}")
    ways += [way for way in (learners_message(observation, entries),) if way]
    return ". ".join([said, *ways])


def _left_message(
    observation: Observation, entries: tuple[PartitionConfiguration, ...]
) -> str | None:
    """The replicas outside the assignment with entries that the active lacks; None without any."""
    kept = left_with_more(observation, entries)
    if not kept:
        return None
    return (
        f"{'; '.join(kept)}. The replica that was left is deleted after an accepted loss: make its "
        "pod the active in status.assignment, in the next epoch, to go on with it"
    )


def _away_message(
    observation: Observation, entries: tuple[PartitionConfiguration, ...]
) -> str | None:
    """The in-sync standbys that have not reported their replica; None without any."""
    told = by_reason(
        (entry.partition, f"{observation.resource.name}-{pod}")
        for entry in entries
        for pod in sorted(set(entry.in_sync) - {entry.active})
        if (report := observation.reports.get(pod)) is None
        or any(one.partition == entry.partition and one.is_waiting for one in report.lost)
    )
    if not told:
        return None
    away = "; ".join(f"partition {numbers} on {pod}" for numbers, pod in told)
    return (
        f"In sync, and with all rows, is {away}, which does not answer or waits to open it: bring "
        "that pod back, and it takes over. An accepted loss goes on without it"
    )
