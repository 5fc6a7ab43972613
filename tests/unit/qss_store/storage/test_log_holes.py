"""A database whose write-ahead logs lack writes before others is not opened.

Of writes that no sync covered a power loss may leave the later ones alone.
"""

import os
import shutil
from pathlib import Path
from random import Random  # noqa: TID251 seeded by the test.

import pytest

from qss_core.errors import CorruptionError
from qss_store.storage.database_files import check_no_hole
from qss_store.storage.engine import CHANGELOG, META, PAYLOAD
from qss_store.storage.rocksdb.database import RocksDbEngine
from qss_store.storage.rocksdb.memory_budget import MemoryBudget

BLOCK_BYTES = 32 * 1024
RECORD_BYTES = 24  # Of a batch with one row, whose key has one byte.
BUDGET = MemoryBudget.of(cache_bytes=1024 * 1024, write_buffer_bytes=64 * 1024 * 1024)


def put(engine: RocksDbEngine, family: str, key: bytes, value: bytes = b"") -> None:
    batch = engine.batch()
    batch.put(family, key, value)
    engine.write(batch)


def logs_of(path: Path) -> list[Path]:
    return sorted(path.glob("*.log"))


def without_power(engine: RocksDbEngine, path: Path) -> Path:
    """A copy of the files of a database that is open."""
    copy = path.with_name(f"{path.name}-copy")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(path, copy)
    engine.close()
    return copy


def with_two_logs(path: Path) -> Path:
    """The files of a database that has the keys 0 to 4 in one log, and 5 to 7 in the next one."""
    engine = RocksDbEngine(path, BUDGET, compacts=False)
    put(engine, PAYLOAD, b"rows")
    for number in range(5):
        put(engine, META, b"%d" % number)
    engine.column_families[PAYLOAD].flush()  # The next write goes to a new log.
    for number in range(5, 8):
        put(engine, META, b"%d" % number)
    files = without_power(engine, path)
    assert len(logs_of(files)) == 2
    return files


def keys_in(path: Path, *, salvages: bool = False) -> bytes:
    engine = RocksDbEngine(path, BUDGET, salvages=salvages)
    try:
        return b"".join(key for key, _ in engine.scan(META))
    finally:
        engine.close()


def test_two_whole_logs_are_read(tmp_path: Path) -> None:
    assert keys_in(with_two_logs(tmp_path / "0")) == b"01234567"


def test_a_database_whose_older_log_lost_its_end_is_not_opened(tmp_path: Path) -> None:
    """RocksDB opened it without the write in between: an entry would never be applied."""
    files = with_two_logs(tmp_path / "0")
    older, newer = logs_of(files)
    os.truncate(older, older.stat().st_size - 1)
    told = rf"{newer.name} lacks writes before those at byte 0, as after a loss of power"
    with pytest.raises(CorruptionError, match=told):
        keys_in(files)


def test_a_newest_log_that_lost_its_end_is_read_up_to_there(tmp_path: Path) -> None:
    files = with_two_logs(tmp_path / "0")
    newer = logs_of(files)[1]
    os.truncate(newer, newer.stat().st_size - 1)
    assert keys_in(files) == b"0123456"


def test_a_database_that_went_on_after_a_torn_end_has_no_hole(tmp_path: Path) -> None:
    files = with_two_logs(tmp_path / "0")
    newer = logs_of(files)[1]
    os.truncate(newer, newer.stat().st_size - 1)
    engine = RocksDbEngine(files, BUDGET)
    put(engine, META, b"8")
    assert keys_in(without_power(engine, files)) == b"01234568"


def test_a_salvage_reads_the_logs_up_to_the_hole(tmp_path: Path) -> None:
    files = with_two_logs(tmp_path / "0")
    older = logs_of(files)[0]
    os.truncate(older, older.stat().st_size - RECORD_BYTES)
    assert keys_in(files, salvages=True) == b"0123"
    assert keys_in(files) == b"0123"


def test_a_database_with_empty_pages_between_two_records_is_not_opened(tmp_path: Path) -> None:
    path = tmp_path / "0"
    engine = RocksDbEngine(path, BUDGET, compacts=False)
    put(engine, META, b"1", bytes(3000))
    log = logs_of(path)[0]
    begins = log.stat().st_size
    # A length of three bytes: the record ends with its block.
    put(engine, META, b"2", bytes(BLOCK_BYTES - begins - (begins - 3000) - 1))
    assert log.stat().st_size == BLOCK_BYTES
    put(engine, META, b"3")
    files = without_power(engine, path)
    log = logs_of(files)[0]
    data = log.read_bytes()
    log.write_bytes(data[:begins] + bytes(BLOCK_BYTES - begins) + data[BLOCK_BYTES:])
    with pytest.raises(CorruptionError, match=f"before those at byte {BLOCK_BYTES}"):
        keys_in(files)
    assert keys_in(files, salvages=True) == b"1"


@pytest.mark.parametrize("seed", range(5))
def test_batches_of_any_size_are_no_hole_and_a_lost_one_is(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    path = tmp_path / "0"
    engine = RocksDbEngine(path, BUDGET, compacts=False)
    put(engine, META, b"first")  # It keeps the oldest log.
    for _ in range(150):
        batch = engine.batch()
        for _ in range(random.choice([1, 1, 2, 30])):
            key, size = random.randbytes(8), random.choice([0, 10, 100, 7000, 40_000])
            batch.put(random.choice([CHANGELOG, PAYLOAD]), key, random.randbytes(size))
        engine.write(batch)
        if random.random() < 0.05:
            engine.column_families[random.choice([CHANGELOG, PAYLOAD])].flush()
    files = without_power(engine, path)
    check_no_hole(files)
    logs = [one for one in logs_of(files) if one.stat().st_size]
    assert len(logs) > 1
    cut = random.choice(logs[:-1])
    os.truncate(cut, random.randrange(cut.stat().st_size // 2, cut.stat().st_size))
    with pytest.raises(CorruptionError, match="lacks writes"):
        check_no_hole(files)
