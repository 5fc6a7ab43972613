"""The RocksDB engine: one database a replica, one block cache and one write-buffer budget a pod.

rocksdict holds the interpreter's lock in `write` and `get` and releases it in `flush_wal`; who
calls decides how much is written at once. Options are named for every family at each open, because
those of an unnamed family silently become RocksDB's defaults.
"""

import logging
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat
from pathlib import Path

from rocksdict import (
    BlockBasedOptions,
    BottommostLevelCompaction,
    Cache,
    ColumnFamily,
    CompactOptions,
    DataBlockIndexType,
    DBRecoveryMode,
    Options,
    Rdict,
    WriteBatch,
    WriteBufferManager,
)
from rocksdict import Snapshot as RocksSnapshot

from qss_core.errors import CorruptionError, DiskFullError
from qss_store.storage.database_files import make_directory, newest_log
from qss_store.storage.engine import FIXED_FAMILIES, PAYLOAD, Batch, Get, SyncedFiles
from qss_store.storage.free_space import Room, no_room_to_open
from qss_store.storage.rocksdb_iterators import Held, backward, forward, newest, translated

_LOG = logging.getLogger(__name__)
_DEFAULT_FAMILY = "default"
_WRITE_BUFFER_BYTES = 16 * 1024 * 1024
_PAYLOAD_BUFFER_BYTES = 32 * 1024 * 1024
_WAL_BYTES_MAX = 64 * 1024 * 1024
_BLOOM_BITS_PER_KEY = 10
# With a hash of its keys in each block, larger blocks make points quicker: fewer of them to find.
_BLOCK_BYTES = 16 * 1024
_KEYS_PER_HASH_SLOT = 0.75
_MISSING = "key not found"


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    """What all replicas of a pod share: memory, in bytes, and the room on their volume."""

    cache: Cache
    cache_bytes: int
    write_buffers: WriteBufferManager
    room: Room = field(default_factory=Room)

    @classmethod
    def of(cls, *, cache_bytes: int, write_buffer_bytes: int) -> "MemoryBudget":
        """A block cache and a write-buffer budget."""
        return cls(
            Cache(cache_bytes),
            cache_bytes,
            WriteBufferManager(write_buffer_bytes, allow_stall=False),
        )


class RocksBatch:
    """A write batch over the families of one database."""

    def __init__(self, handles: dict[str, ColumnFamily]) -> None:
        self.raw = WriteBatch(raw_mode=True)
        self._handles = handles

    def put(self, family: str, key: bytes, value: bytes) -> None:
        self.raw.put(key, value, self._handles[family])

    def put_rows(self, family: str, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """Sets many rows; a None value deletes."""
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


class RocksDbFamilyView:
    """One family at one moment.

    rocksdict's snapshots answer `get` as of their moment, but their iterators read the newest
    state. So scans share one iterator of the family, which pins the moment when it is opened: at
    the first scan, or by `pin` before the family is written again. Each scan takes it for a stretch
    of rows and seeks to where it was; only one thread may do so. Before that, a scan forward has an
    iterator of its own, which is quicker, and the shared one only has its last word.
    """

    def __init__(self, family: Rdict) -> None:
        self._family: Rdict | None = family
        self._raw: RocksSnapshot | None = family.snapshot()
        self._cursor: Held | None = None
        self._is_newest = True  # Until `pin`: the family is as it was.

    def get(self, key: bytes) -> bytes | None:
        raw, family = self._raw, self._family
        assert raw is not None, "the snapshot is closed"
        if not self._is_newest:
            return _read((raw, family), key)
        assert family is not None, "closed with the snapshot"
        try:  # Quicker, above all where there is no such key.
            newest: bytes | None = family.get(key)
        except Exception as error:
            raise translated(error) from error
        return newest

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of many keys.

        While the family is as it was, by one call of its own, which knows no snapshots and is twice
        as fast as a call for each key.
        """
        raw = self._raw
        assert raw is not None, "the snapshot is closed"
        if self._is_newest:
            return self._get_newest(keys)
        values: list[bytes | None] = []
        for key in keys:
            try:
                values.append(raw[key])
            except Exception as error:
                if str(error) != _MISSING:
                    raise translated(error) from error
                values.append(None)
        return values

    def _get_newest(self, keys: Sequence[bytes]) -> list[bytes | None]:
        assert self._family is not None, "the snapshot is closed"
        try:
            values: list[bytes | None] = self._family.get([*keys])  # type: ignore[assignment]
        except Exception as error:
            raise translated(error) from error
        return values

    def reader(self) -> Get:
        """Gets of this moment, also after `close`."""
        assert self._raw is not None, "the snapshot is closed"
        # With the family: somebody may drop it meanwhile.
        return partial(_read, (self._raw, self._family))

    def pin(self) -> None:
        """Holds the family's rows as they are, for all reads to come."""
        self._held()
        self._is_newest = False

    def _held(self) -> "Held":
        if self._cursor is None:
            assert self._family is not None, "the snapshot is closed"
            self._cursor = (self._family.iter(), self._family)
        return self._cursor

    def scan(
        self, *, lower: bytes | None = None, upper: bytes | None = None, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Rows with lower <= key < upper in key order."""
        cursor = self._held()
        if reverse:
            return backward(cursor, lower, upper)
        return (newest if self._is_newest else forward)(cursor, lower, upper)

    def close(self) -> None:
        """Lets go of the moment; a scan that runs keeps the iterator."""
        self._family = None
        self._raw = None
        self._cursor = None


def _read(held: tuple[RocksSnapshot, Rdict | None], key: bytes) -> bytes | None:
    try:
        value: bytes = held[0][key]
    except Exception as error:
        if str(error) == _MISSING:
            return None
        raise translated(error) from error
    return value


def _check_files(path: Path) -> None:
    """RocksDB would take files that no CURRENT names for rubbish, and delete them."""
    if (path / "CURRENT").exists():
        return
    if any(path.glob("*.sst")) or any(log.stat().st_size for log in path.glob("*.log")):
        raise CorruptionError(f"{path} has rows and no CURRENT, which tells what they are")


class RocksDbEngine:
    def __init__(self, path: Path, budget: MemoryBudget, *, salvages: bool = False) -> None:
        """Opens or makes the database; CorruptionError where its files are damaged.

        With `salvages` it opens up to the first damage in its write-ahead log, and loses the rest.
        """
        self._path = path
        self._salvages = salvages
        self._budget = budget
        self._syncing = threading.Lock()
        self._compacting = threading.Lock()
        make_directory(path)
        _check_files(path)
        try:
            present = set(Rdict.list_cf(str(path))) if (path / "CURRENT").exists() else set()
            named = present | {_DEFAULT_FAMILY, *FIXED_FAMILIES}
            self._db = Rdict(
                str(path),
                self._options(_DEFAULT_FAMILY),
                column_families={name: self._options(name) for name in named},
            )
            self.column_families = {name: self._db.get_column_family(name) for name in named}
            self._handles = {name: self._db.get_column_family_handle(name) for name in named}
        except Exception as error:
            failure = translated(error)
            is_full = isinstance(failure, DiskFullError)
            raise (no_room_to_open(path) if is_full else failure) from error
        self._assert_options_took_effect()

    def _options(self, family: str) -> Options:
        table = BlockBasedOptions()
        table.set_block_cache(self._budget.cache)
        table.set_bloom_filter(_BLOOM_BITS_PER_KEY, False)  # noqa: FBT003
        table.set_cache_index_and_filter_blocks(True)
        table.set_pin_l0_filter_and_index_blocks_in_cache(True)
        table.set_block_size(_BLOCK_BYTES)
        table.set_data_block_index_type(DataBlockIndexType.binary_and_hash())
        table.set_data_block_hash_ratio(_KEYS_PER_HASH_SLOT)
        options = Options(raw_mode=True)
        options.create_if_missing(True)  # noqa: FBT003
        options.create_missing_column_families(True)  # noqa: FBT003
        options.set_block_based_table_factory(table)
        options.set_write_buffer_manager(self._budget.write_buffers)
        options.set_write_buffer_size(
            _PAYLOAD_BUFFER_BYTES if family == PAYLOAD else _WRITE_BUFFER_BYTES
        )
        # A torn tail is what a crash leaves; a flip in the middle must be refused, not skipped.
        options.set_wal_recovery_mode(
            DBRecoveryMode.point_in_time()
            if self._salvages
            else DBRecoveryMode.tolerate_corrupted_tail_records()
        )
        # A log file is kept, and replayed at the next open, while any family has rows only there.
        options.set_max_total_wal_size(_WAL_BYTES_MAX)
        options.set_max_background_jobs(2)
        options.set_keep_log_file_num(2)
        options.set_max_log_file_size(1024 * 1024)
        return options

    def _assert_options_took_effect(self) -> None:
        for name, family in self.column_families.items():
            capacity = family.property_int_value("rocksdb.block-cache-capacity")
            assert capacity == self._budget.cache_bytes, f"the options of {name} were not taken"

    def batch(self) -> RocksBatch:
        return RocksBatch(self._handles)

    def write(self, batch: Batch, *, makes_room: bool = False) -> None:
        """Applies a batch at once; holds the interpreter's lock while it does."""
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
        """Syncs, and tells what the files hold at least from now on."""
        writes = self._db.latest_sequence_number()
        number, size = newest_log(self._path)
        self.sync()
        return SyncedFiles(log_number=number, log_bytes=size, writes=writes)

    def get(self, family: str, key: bytes) -> bytes | None:
        """The newest value, or None."""
        try:
            value: bytes | None = self.column_families[family].get(key)
        except Exception as error:
            raise translated(error) from error
        return value

    def scan(
        self, family: str, *, lower: bytes | None = None, upper: bytes | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        """Rows with lower <= key < upper, as of the call."""
        rows = self.column_families[family]
        return forward((rows.iter(), rows), lower, upper)

    def snapshot(self, family: str) -> RocksDbFamilyView:
        """The family as of now."""
        return RocksDbFamilyView(self.column_families[family])

    def families(self) -> frozenset[str]:
        """The names of all families but RocksDB's own default one."""
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
            raise translated(error) from error
        self._handles[family] = self._db.get_column_family_handle(family)

    def drop_family(self, family: str) -> None:
        """Removes a family and its rows; releases the interpreter's lock."""
        if self.column_families.pop(family, None) is None:
            return
        del self._handles[family]
        with self._syncing:
            try:
                self._db.drop_column_family(family)
            except Exception as error:
                raise translated(error) from error

    def compact_family(self, family: str, below: bytes) -> None:
        """Rewrites the files of that range; releases the interpreter's lock."""
        # Otherwise a lone file is moved to the last level as it is.
        how = CompactOptions()
        how.set_bottommost_level_compaction(BottommostLevelCompaction.force())
        how.set_exclusive_manual_compaction(False)
        with self._compacting:
            if rows := self.column_families.get(family):
                rows.compact_range(None, below, how)

    def flush(self) -> None:
        """Writes all memtables to files; releases the interpreter's lock."""
        for family in self.column_families.values():
            family.flush()

    def approximate_count(self, family: str) -> int:
        """RocksDB's estimate; far off where rows are overwritten often."""
        return self.column_families[family].property_int_value("rocksdb.estimate-num-keys") or 0

    def size_bytes(self) -> int:
        """Bytes of all live files and memtables."""
        names = ("rocksdb.total-sst-files-size", "rocksdb.size-all-mem-tables")
        return sum(
            family.property_int_value(name) or 0
            for family in [*self.column_families.values()]
            for name in names
        )

    def close(self) -> None:
        """Closes the database; what runs for a caller that has gone is waited for: it has no end.

        That is a sync, or a compaction. What was synced stays also where the close fails.
        """
        with self._compacting, self._syncing:
            self.column_families.clear()
            self._handles.clear()
            try:
                self._db.close()
            except Exception as error:  # noqa: BLE001 damage, or a full disk: said and logged.
                _LOG.error("%s did not close well: %s", self._path, error)
            finally:
                # Where families were made, the object holds the files' lock also when it is closed.
                del self._db
