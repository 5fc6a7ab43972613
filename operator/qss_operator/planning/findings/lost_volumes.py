"""Tells a person how to go on after volumes were lost, or single partitions of them. Pure."""

from collections.abc import Mapping, Sequence

from qss_core.model import PartitionId
from qss_core.text import listed
from qss_operator.planning.assignment_state import KnownAssignment, held_by
from qss_operator.planning.losses import (
    AWAY_S,
    how_to_accept,
    last_resort,
    learners_message,
    misplaced_message,
)
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
