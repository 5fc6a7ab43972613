"""The databases of a pod's volume, and the sync marks that it keeps beside them.

Each file is replaced as a whole: after a crash the volume has the old file or the new one.
"""

import logging
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from msgspec import field

from qss_core.errors import MalformedRequestError
from qss_core.model import Offset, Ordinal, PartitionId, StoreDefinition, StoreId, Wire
from qss_core.wire.messages import decode, encode
from qss_store.storage.database_files import sync_directory
from qss_store.storage.engine import SyncedFiles

_LOG = logging.getLogger(__name__)
_MARKS_FILE = "synced.json"
_SCHEMA_FILE = "schema-of-rows.json"
_ORDINAL_FILE = "pod-ordinal"


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

    def keep_schema(self, kept: StoreDefinition) -> None:
        """Keeps the definition that a database says it has; a full volume does without it."""
        if schema_of_rows(self.path) == kept:
            return
        try:
            replace_file(self.path / _SCHEMA_FILE, encode(kept))
        except OSError as error:
            _LOG.warning("the schema of the rows cannot be kept on the volume: %s", error)

    def mend_schema(self, kept: StoreDefinition) -> None:
        """Keeps a database's definition in place of one that cannot be read."""
        if (self.path / _SCHEMA_FILE).exists() and schema_of_rows(self.path) is None:
            self.keep_schema(kept)

    def keep_owner(self, pod: Ordinal, *, is_sure: bool) -> None:
        """Keeps the pod that a volume is of; a full volume does without it.

        is_sure: whether the pod may take the volume from the owner that it names: it holds an
            older database that the pod itself made, or a person accepted the loss. A new database
            alone proves nothing, since a pod may begin one on the volume of another pod.
        """
        kept = owner_of(self.path)
        if kept == pod or (kept is not None and not is_sure):
            return
        try:
            replace_file(self.path / _ORDINAL_FILE, str(pod).encode())
        except OSError as error:
            _LOG.warning("the number of the pod cannot be kept on the volume: %s", error)

    def retired(self, partition: PartitionId) -> Path:
        """The directory of a partition's database while it is deleted."""
        return self.database(partition).with_suffix(".retired")

    def remove_copies(self) -> None:
        """Removes the leftovers of a process: copies of databases, and half-deleted databases.

        Blocks.
        """
        left = [
            path
            for name in ("*.retired", "*.looked-at")
            for path in (self.path / "partitions").glob(name)
        ]
        for path in (self.path / "incoming", self.path / "snapshots", *left):
            shutil.rmtree(path, ignore_errors=True)

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
        replace_file(self.path / _MARKS_FILE, encode(_Marks(store_id=store_id, partitions=named)))


def replace_file(path: Path, data: bytes) -> None:
    """Writes a file as a whole, durably, in place of an older one. Blocks; raises OSError."""
    draft = path.with_suffix(".new")
    with draft.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    sync_directory(path.parent)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()


def schema_of_rows(directory: Path) -> StoreDefinition | None:
    """The definition that a database on the volume had when the assignment had another schema."""
    try:
        return decode((directory / _SCHEMA_FILE).read_bytes(), StoreDefinition)
    except (OSError, MalformedRequestError):
        return None


def owner_of(directory: Path) -> Ordinal | None:
    """The pod that a volume is of; None where it was never kept, or the file is damaged."""
    try:
        kept = (directory / _ORDINAL_FILE).read_text("ascii")
    except (OSError, UnicodeDecodeError):
        return None
    return Ordinal(int(kept)) if _is_number(kept) else None
