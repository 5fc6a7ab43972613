"""The RocksDB engine: the database of one replica, with its column families.

rocksdict holds the interpreter's lock in `write` and `get`, and releases it in `flush_wal`; the
caller limits the size of a write. Every open names the options of every family, since an unnamed
family silently gets RocksDB's defaults.
"""

import logging
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import repeat
from pathlib import Path

from rocksdict import (
    BottommostLevelCompaction,
    Checkpoint,
    ColumnFamily,
    CompactOptions,
    Rdict,
    WriteBatch,
)

from qss_core.errors import CorruptionError, DiskFullError
from qss_store.storage.database_files import (
    check_no_hole,
    cut_behind_hole,
    make_directory,
    newest_log,
)
from qss_store.storage.engine import FIXED_FAMILIES, Batch, PassingError, SyncedFiles
from qss_store.storage.free_space import no_room_to_open
from qss_store.storage.rocksdb.errors import translated
from qss_store.storage.rocksdb.family_view import RocksDbFamilyView
from qss_store.storage.rocksdb.iterators import forward, read_past_cache
from qss_store.storage.rocksdb.memory_budget import MemoryBudget
from qss_store.storage.rocksdb.options import family_options

_LOG = logging.getLogger(__name__)
_DEFAULT_FAMILY = "default"


class RocksBatch:
    """A write batch over the families of one database."""

    def __init__(self, handles: dict[str, ColumnFamily]) -> None:
        self.raw = WriteBatch(raw_mode=True)
        self._handles = handles

    def put(self, family: str, key: bytes, value: bytes) -> None:
        self.raw.put(key, value, self._handles[family])

    def put_rows(self, family: str, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        handle = self._handles[family]
        if None not in values:
            deque(map(self.raw.put, keys, values, repeat(handle)), maxlen=0)
            return
        for key, value in zip(keys, values, strict=True):
            if value is None:
                self.raw.delete(key, handle)
            else:
                self.raw.put(key, value, handle)

    def delete(self, family: str, key: bytes) -> None:
        self.raw.delete(key, self._handles[family])


def _check_files(path: Path) -> None:
    """Raises CorruptionError for files without CURRENT, which RocksDB would delete."""
    if (path / "CURRENT").exists():
        return
    if any(path.glob("*.sst")) or any(log.stat().st_size for log in path.glob("*.log")):
        raise CorruptionError(
            f"{path} has rows, but no file CURRENT, without which they cannot be read"
        )


class RocksDbEngine:
    def __init__(
        self, path: Path, budget: MemoryBudget, *, salvages: bool = False, compacts: bool = True
    ) -> None:
        """Opens or makes the database. Raises CorruptionError if its files are damaged.

        With `salvages` it reads the write-ahead logs up to the first damage, and loses the rest.
        Unless it `compacts`, no compaction begins by itself: files at rest stay as they are.
        """
        self._path = path
        self._budget = budget
        self._options = partial(
            family_options,
            blocks=budget.blocks,
            rows=budget.rows,
            write_buffers=budget.write_buffers,
            salvages=salvages,
            compacts=compacts,
        )
        self._syncing = threading.Lock()
        self._compacting = threading.Lock()
        make_directory(path)
        _check_files(path)
        if salvages:
            cut_behind_hole(path)
        else:
            check_no_hole(path)
        try:
            present = set(Rdict.list_cf(str(path))) if (path / "CURRENT").exists() else set()
            named = present | {_DEFAULT_FAMILY, *FIXED_FAMILIES}
            self._db = Rdict(
                str(path),
                self._options(_DEFAULT_FAMILY),
                column_families={name: self._options(name) for name in named},
            )
            self.column_families = {name: self._db.get_column_family(name) for name in named}
            self._half_dropped = set[str]()  # Families whose drop has failed.
            self._handles = {name: self._db.get_column_family_handle(name) for name in named}
        except Exception as error:
            failure = translated(error)
            is_full = isinstance(failure, DiskFullError)
            raise (no_room_to_open(path) if is_full else failure) from error
        self._assert_options_took_effect()

    def _assert_options_took_effect(self) -> None:
        for name, family in self.column_families.items():
            capacity = family.property_int_value("rocksdb.block-cache-capacity")
            assert capacity == self._budget.blocks_bytes, f"the options of {name} were not taken"

    def batch(self) -> RocksBatch:
        return RocksBatch(self._handles)

    def write(self, batch: Batch, *, makes_room: bool = False) -> None:
        """Applies a batch at once; holds the interpreter's lock meanwhile."""
        assert isinstance(batch, RocksBatch), "a batch belongs to its engine"
        size = batch.raw.size_in_bytes()
        self._budget.room.check(self._path, size, makes_room=makes_room)
        try:
            self._db.write(batch.raw)
        except Exception as error:
            raise translated(error) from error

    def sync(self) -> None:
        """Makes all earlier writes durable; releases the interpreter's lock."""
        with self._syncing:
            try:
                self._db.flush_wal(True)  # noqa: FBT003
            except Exception as error:
                raise translated(error) from error

    def mark(self) -> SyncedFiles:
        """Syncs, and returns the state that the files have at least from now on."""
        writes = self._db.latest_sequence_number()
        number, size = newest_log(self._path)
        self.sync()
        return SyncedFiles(log_number=number, log_bytes=size, writes=writes)

    def get(self, family: str, key: bytes) -> bytes | None:
        try:
            value: bytes | None = self.column_families[family].get(key)
        except Exception as error:
            raise translated(error) from error
        return value

    def scan(
        self, family: str, *, lower: bytes | None = None, upper: bytes | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        rows = self.column_families[family]
        return forward((rows.iter(), rows), lower, upper)

    def check_rows(self, family: str, after: bytes | None) -> tuple[bytes | None, int]:
        return read_past_cache(self.column_families[family], after)

    def view(self, family: str) -> RocksDbFamilyView:
        return RocksDbFamilyView(self.column_families[family])

    def families(self) -> frozenset[str]:
        """The names of all families except RocksDB's own default family."""
        return frozenset(self.column_families) - {_DEFAULT_FAMILY}

    def create_family(self, family: str) -> None:
        if family in self.column_families:
            return
        self._budget.room.check(self._path, 0)
        try:
            self.column_families[family] = self._db.create_column_family(
                family, self._options(family)
            )
        except Exception as error:
            if family in self._half_dropped:
                told = f"a drop of {family} has failed: the database is being opened again"
                raise PassingError(told) from error
            raise translated(error) from error
        self._half_dropped.discard(family)
        self._handles[family] = self._db.get_column_family_handle(family)

    def drop_family(self, family: str) -> None:
        """Drops a family and its rows; releases the interpreter's lock.

        Raises DiskFullError before it changes anything where even that has no room. A drop that
        fails later may be on the disk or not, and RocksDB has forgotten the name: the family is
        named no more, and what is left of it is dropped when the database is opened again.
        """
        if family not in self.column_families:
            return
        self._budget.room.check(self._path, 0, makes_room=True)
        rows, handle = self.column_families.pop(family), self._handles.pop(family)
        with self._syncing:
            try:
                self._db.drop_column_family(family)
            except Exception as error:
                self._half_dropped.add(family)
                del (
                    rows,
                    handle,
                )  # The error's frames would keep them and the files' lock.
                raise translated(error) from error

    def compact_family(self, family: str, below: bytes) -> None:
        """Rewrites the files of that range; releases the interpreter's lock."""
        # Otherwise a single file is moved to the last level unchanged.
        how = CompactOptions()
        how.set_bottommost_level_compaction(BottommostLevelCompaction.force())
        how.set_exclusive_manual_compaction(False)
        with self._compacting:
            if rows := self.column_families.get(family):
                rows.compact_range(None, below, how)

    def flush(self) -> None:
        """Writes all memtables to files; releases the interpreter's lock."""
        with self._compacting:
            for family in [*self.column_families.values()]:
                family.flush()

    def checkpoint(self, path: Path) -> None:
        """Flushes the rows that are left in memory, and links the files."""
        self._budget.room.check(self._path, 0)
        with self._syncing:
            try:
                Checkpoint(self._db).create_checkpoint(str(path))
            except Exception as error:
                raise translated(error) from error

    def approximate_count(self, family: str) -> int:
        """RocksDB's estimate, which is far off if rows are often overwritten."""
        return self.column_families[family].property_int_value("rocksdb.estimate-num-keys") or 0

    def size_bytes(self) -> int:
        """The bytes of all live files and memtables."""
        names = ("rocksdb.total-sst-files-size", "rocksdb.size-all-mem-tables")
        return sum(
            family.property_int_value(name) or 0
            for family in [*self.column_families.values()]
            for name in names
        )

    def close(self) -> None:
        """Closes the database, after a running sync or compaction ends, however long that takes.

        Synced rows survive a failed close.
        """
        with self._compacting, self._syncing:
            self.column_families.clear()
            self._handles.clear()
            try:
                self._db.close()
            except Exception as error:  # noqa: BLE001 damage, or a full disk: said and logged.
                _LOG.error("%s did not close well: %s", self._path, error)
            finally:
                # After families were made, the object holds the files' lock even when it is closed.
                del self._db
