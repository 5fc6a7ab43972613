"""Recognises the volume of another pod by the partitions that it has."""

from collections.abc import Collection

from qss_core.errors import CorruptionError
from qss_core.model import Ordinal, PartitionId, StoreAssignment
from qss_store.replicas.volume.assignment_file import read_assignment
from qss_store.replicas.volume.kept_files import Volume
from qss_store.storage.replica_identity import MisplacedError

_LOST = "its rows are not on the volume any more: bring them back"


def missing_here(volume: Volume, partition: PartitionId) -> CorruptionError:
    """The likely reason why a partition is missing on a volume, and what to do.

    A MisplacedError says that the volume is another pod's.
    """
    assignment = read_assignment(volume.path)
    present = set(volume.partitions()) - {partition}
    if assignment is None or not present:
        return CorruptionError(_LOST)
    pods = _pods_of(assignment, present)
    if not pods or pods & _pods_of(assignment, {partition}):
        return CorruptionError(_LOST)
    held = ", ".join(map(str, sorted(present)))
    names = " or ".join(f"pod {pod}" for pod in sorted(pods))
    return MisplacedError(
        f"this is the volume of {names}: it holds that pod's partitions ({held}). Give each pod "
        "its own volume again; nothing is lost",
        owner=next(iter(pods)) if len(pods) == 1 else None,
    )


def _pods_of(assignment: StoreAssignment, partitions: Collection[PartitionId]) -> set[Ordinal]:
    """The pods that have all of these partitions."""
    return {
        pod.ordinal
        for pod in assignment.pods
        if all(
            number < len(assignment.partitions)
            and assignment.partitions[number].role_of(pod.ordinal) is not None
            for number in partitions
        )
    }
