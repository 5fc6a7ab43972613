"""Keeps a pod's assignment on its volume, and in memory as the volume has it."""

import asyncio
import logging
from pathlib import Path

from msgspec.structs import replace

from qss_core.errors import CorruptionError, DiskFullError, MalformedRequestError
from qss_core.model import PartitionId, StoreAssignment
from qss_core.spec.fixed_members import with_schema_of
from qss_core.wire.messages import decode, encode
from qss_store.replicas.volume.kept_files import Volume, replace_file, schema_of_rows

_LOG = logging.getLogger(__name__)
_NAME = "assignment.json"
_RESOURCE_NAME = "resource-uid"


class AssignmentFile:
    """The assignment that a pod has; a pod that restarts takes it from the volume."""

    def __init__(self, directory: Path) -> None:
        """Reads no file before `remember`."""
        self._directory = directory
        self.assignment: StoreAssignment | None = None
        self.unreadable: CorruptionError | None = None  # Why the kept assignment is unreadable.
        # The databases beside a lost assignment, as `remember` found them: reports tell them, and
        # must not wait for the volume.
        self.unassigned: tuple[PartitionId, ...] = ()
        self._is_known = asyncio.Event()

    def remember(self) -> StoreAssignment | None:
        """Takes the assignment on the volume; None where there is none, or `unreadable` says why.

        Creates the volume's directory.
        """
        try:
            kept = read_assignment(self._directory)
        except CorruptionError as error:
            if self.unreadable is None:
                _LOG.error("no partition is served: %s", error.message)
            self.unreadable = error
            kept = None
        if kept is not None:
            self._know(kept)
        else:
            self.unassigned = _databases_in(self._directory)
        return kept

    def keep(self, assignment: StoreAssignment) -> None:
        """Keeps another assignment, durably. Raises DiskFullError."""
        if assignment == self.assignment:
            return
        try:
            replace_file(self._directory / _NAME, encode(assignment))
        except OSError as error:
            raise DiskFullError(f"the assignment cannot be kept on the volume: {error}") from error
        self._know(assignment)

    def keep_resource(self, uid: str) -> None:
        """Keeps the uid of the resource whose operator gave the assignment; raises as `keep`."""
        if not uid or self._resource() == uid:
            return
        try:
            replace_file(self._directory / _RESOURCE_NAME, uid.encode())
        except OSError as error:
            raise DiskFullError(f"the uid cannot be kept on the volume: {error}") from error

    def is_of(self, uid: str) -> bool:
        """Whether the volume is of the resource with this uid; an unknown uid ("") fits any volume.

        A volume of a deleted store with the same name has another uid. A store that adopted volumes
        has another id than its resource.
        """
        if not uid or self.assignment is None:
            return True
        return uid == (self._resource() or self.assignment.definition.store_id)

    def _resource(self) -> str | None:
        try:
            return (self._directory / _RESOURCE_NAME).read_text("ascii")
        except (OSError, UnicodeDecodeError):
            return None

    def correct_schema(self) -> bool:
        """Takes the schema that a database has told since; returns whether it is another one.

        Call it only while no database is open with the assignment's schema.
        """
        kept = self.assignment
        if kept is not None:
            self.assignment = _with_schema_of_rows(self._directory, kept)
        return self.assignment != kept

    async def wait(self) -> None:
        """Returns when the pod has an assignment."""
        await self._is_known.wait()

    def _know(self, assignment: StoreAssignment) -> None:
        self.assignment, self.unreadable = assignment, None
        self._is_known.set()


def read_assignment(directory: Path) -> StoreAssignment | None:
    """The assignment that a volume keeps, or None; creates the volume's directory.

    It has the schema that the databases had where they refused another one: a person may have
    edited or deleted the file. Raises CorruptionError where the file cannot be read.
    """
    directory.mkdir(parents=True, exist_ok=True)
    try:
        kept = decode((directory / _NAME).read_bytes(), StoreAssignment)
    except FileNotFoundError:
        return None
    except (OSError, MalformedRequestError) as error:
        raise CorruptionError(
            f"{_NAME} on the volume cannot be read ({error}), so this pod does not "
            "know its partitions: bring the file back, or accept the loss of one of the pod's "
            "partitions; then the pod serves the partitions that are complete"
        ) from error
    return _with_schema_of_rows(directory, kept)


def _with_schema_of_rows(directory: Path, kept: StoreAssignment) -> StoreAssignment:
    rows, definition = schema_of_rows(directory), kept.definition
    if rows is None or (rows.store_id, rows.partitions) != (
        definition.store_id,
        definition.partitions,
    ):
        return kept
    return replace(kept, definition=with_schema_of(rows, definition))


def _databases_in(directory: Path) -> tuple[PartitionId, ...]:
    """The partitions with a database on a volume; none where the volume cannot be read."""
    try:
        return tuple(Volume(directory).partitions())
    except OSError as error:
        _LOG.warning("the databases on the volume cannot be listed: %s", error)
        return ()
