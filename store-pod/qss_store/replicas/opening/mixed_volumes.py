"""Recognises the volume of another pod by its partitions, and files of another replica."""

import shutil
from collections.abc import Callable, Collection
from pathlib import Path

from qss_core.errors import CorruptionError, StoreError
from qss_core.model import (
    Ordinal,
    PartitionConfiguration,
    PartitionId,
    StoreAssignment,
    StoreDefinition,
)
from qss_store.replicas.volume.assignment_file import read_assignment
from qss_store.replicas.volume.kept_files import Volume
from qss_store.storage.engine import Engine
from qss_store.storage.replica_identity import (
    MisplacedError,
    identity_of,
    is_new,
    newest_configuration,
)

_LOOKED_AT = ".looked-at"
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


def misplaced_in(
    path: Path,
    open_engine: Callable[[Path], Engine],
    definition: StoreDefinition,
    configuration: PartitionConfiguration,
    pod: Ordinal,
) -> MisplacedError | None:
    """The error of files that are another replica's; None where they are not, or nobody can tell.

    For files that hold less than was synced, and were not opened. A copy is opened, which leaves
    the files as they are: tables are linked, and nothing of the copy stays.
    """
    copy = path.with_name(f"{path.name}{_LOOKED_AT}")
    shutil.rmtree(copy, ignore_errors=True)
    try:
        _link(path, copy)
        engine = open_engine(copy)
        try:
            if not is_new(engine):
                newest_configuration(identity_of(engine), definition, configuration, pod)
        finally:
            engine.close()
    except MisplacedError as error:
        return error
    except (StoreError, OSError, RuntimeError, MemoryError):
        return None
    finally:
        shutil.rmtree(copy, ignore_errors=True)
    return None


def _link(path: Path, copy: Path) -> None:
    """Makes a copy of a database's files; its tables never change, and are linked."""
    copy.mkdir()
    for file in path.iterdir():
        if file.suffix == ".sst":
            (copy / file.name).hardlink_to(file)
        elif file.is_file():
            shutil.copyfile(file, copy / file.name)


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
