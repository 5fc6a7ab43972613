"""A column family whose drop fails: the database goes on, or asks to be opened again."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from qss_core.errors import DiskFullError, StoreError
from qss_store.storage.engine import PassingError
from qss_store.storage.free_space import Room
from qss_store.storage.rocksdb.database import RocksDbEngine
from qss_store.storage.rocksdb.memory_budget import MemoryBudget

BUDGET = MemoryBudget.of(cache_bytes=1024 * 1024, write_buffer_bytes=1024 * 1024)
OPTIONS_FAIL_BYTES = 200  # The manifest grows by less, and the file of the options is larger.


@contextmanager
def no_file_grows(path: Path, more_bytes: int = 0) -> Iterator[None]:
    """The operating system refuses files of this process that are larger than the manifest."""
    size = os.stat(next(path.glob("MANIFEST-*"))).st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + more_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


class FullRoom(Room):
    """A volume without room, while `is_full`."""

    is_full = False

    def check(self, path: Path, more_bytes: int, *, makes_room: bool = False) -> None:
        if self.is_full:
            raise DiskFullError(f"no room in {path} for {more_bytes} bytes, {makes_room}")


@pytest.fixture
def room() -> FullRoom:
    return FullRoom()


@pytest.fixture
def engine(tmp_path: Path, room: FullRoom) -> RocksDbEngine:
    """A database with a row in the family `rows`."""
    engine = RocksDbEngine(tmp_path, replace(BUDGET, room=room))
    engine.create_family("rows")
    put(engine, b"k")
    engine.sync()
    return engine


def put(engine: RocksDbEngine, key: bytes) -> None:
    batch = engine.batch()
    batch.put("rows", key, b"v")
    engine.write(batch)


def test_a_database_goes_on_after_a_drop_whose_options_could_not_be_written(
    engine: RocksDbEngine, tmp_path: Path
) -> None:
    with no_file_grows(tmp_path, OPTIONS_FAIL_BYTES), pytest.raises(StoreError):
        engine.drop_family("rows")
    assert "rows" not in engine.families()
    engine.drop_family("rows")
    engine.flush()
    engine.create_family("rows")
    assert engine.get("rows", b"k") is None
    put(engine, b"l")
    engine.sync()
    assert engine.get("rows", b"l") == b"v"
    engine.close()


def test_a_family_whose_drop_has_failed_asks_for_another_opening(
    engine: RocksDbEngine, tmp_path: Path
) -> None:
    with no_file_grows(tmp_path), pytest.raises(StoreError) as refused:
        engine.drop_family("rows")
    assert "rows" not in engine.families()
    engine.drop_family("rows")
    with pytest.raises(PassingError, match="opened again"):
        engine.create_family("rows")
    engine.close()

    again = RocksDbEngine(tmp_path, BUDGET)  # The error that is kept does not keep the lock.
    assert again.get("rows", b"k") == b"v"
    again.drop_family("rows")
    again.create_family("rows")
    assert again.get("rows", b"k") is None
    again.close()
    assert refused.value.message


def test_a_family_is_not_dropped_where_the_volume_has_no_room(
    engine: RocksDbEngine, room: FullRoom
) -> None:
    room.is_full = True
    with pytest.raises(DiskFullError, match="True"):
        engine.drop_family("rows")
    room.is_full = False
    assert engine.get("rows", b"k") == b"v"
    engine.drop_family("rows")
    assert "rows" not in engine.families()
    engine.close()
