"""Keeps a pod's assignment and its sync marks on the volume, beside the databases.

Each file is replaced as a whole: after a crash the volume has the old file or the new one.
"""

import logging
import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import field

from qss_core.errors import CorruptionError, DiskFullError, MalformedRequestError
from qss_core.model import Offset, PartitionId, StoreAssignment, StoreId, Wire
from qss_core.wire.messages import decode, encode
from qss_store.storage.database_files import sync_directory
from qss_store.storage.engine import SyncedFiles

_LOG = logging.getLogger(__name__)
_ASSIGNMENT_FILE = "assignment.json"
_MARKS_FILE = "synced.json"


class SyncMark(Wire, frozen=True, kw_only=True):
    """The durable end of one partition; a database that holds less at a start is damaged.

    `digest` is that of the last entry below `end`, None where this entry was cut.
    """

    end: Offset
    digest: int | None = None
    files: SyncedFiles | None = None


class _Marks(Wire, frozen=True, kw_only=True):
    store_id: StoreId
    partitions: dict[str, SyncMark] = field(default_factory=dict)


class Volume:
    """The files of one pod."""

    def __init__(self, path: Path) -> None:
        """Reads and creates no file."""
        self.path = path

    def database(self, partition: PartitionId) -> Path:
        """The directory of a partition's database."""
        return self.path / "partitions" / str(partition)

    def partitions(self) -> list[PartitionId]:
        """The partitions that have a database on the volume."""
        names = (path.name for path in (self.path / "partitions").glob("*"))
        return sorted(PartitionId(int(name)) for name in names if name.isdecimal())

    def assignment(self) -> StoreAssignment | None:
        """The kept assignment, or None; creates the volume's directory.

        Raises CorruptionError where the file cannot be read.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        try:
            return decode((self.path / _ASSIGNMENT_FILE).read_bytes(), StoreAssignment)
        except FileNotFoundError:
            return None
        except (OSError, MalformedRequestError) as error:
            raise CorruptionError(
                f"{_ASSIGNMENT_FILE} on the volume cannot be read ({error}), so this pod does not "
                "know its partitions: bring the file back, or accept the loss of one of the pod's "
                "partitions; then the pod serves the partitions that are complete"
            ) from error

    def keep_assignment(self, assignment: StoreAssignment) -> None:
        """Keeps an assignment durably. Raises DiskFullError."""
        try:
            self._replace(_ASSIGNMENT_FILE, encode(assignment))
        except OSError as error:
            raise DiskFullError(f"the assignment cannot be kept on the volume: {error}") from error

    def marks(self, store_id: StoreId) -> dict[PartitionId, SyncMark]:
        """The sync marks of a store's partitions; none where the file has none of this store."""
        try:
            marks = decode((self.path / _MARKS_FILE).read_bytes(), _Marks)
        except FileNotFoundError:
            return {}
        except (OSError, MalformedRequestError) as error:
            _LOG.warning("%s cannot be read and is ignored: %s", _MARKS_FILE, error)
            return {}
        if marks.store_id != store_id:
            return {}
        numbered = {one: mark for one, mark in marks.partitions.items() if _is_number(one)}
        if strange := sorted(marks.partitions.keys() - numbered):
            _LOG.warning("%s: %s are no partitions, and are ignored", _MARKS_FILE, strange)
        return {PartitionId(int(number)): mark for number, mark in numbered.items()}

    def keep_marks(self, store_id: StoreId, marks: Mapping[PartitionId, SyncMark]) -> None:
        """Keeps the sync marks durably. Blocks; raises OSError."""
        named = {str(number): mark for number, mark in sorted(marks.items())}
        self._replace(_MARKS_FILE, encode(_Marks(store_id=store_id, partitions=named)))

    def _replace(self, name: str, data: bytes) -> None:
        path = self.path / name
        draft = path.with_suffix(".new")
        with draft.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        sync_directory(self.path)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()
