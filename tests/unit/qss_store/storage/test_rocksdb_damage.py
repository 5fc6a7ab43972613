"""A scan that meets a damaged block raises an error."""

import os
from itertools import islice
from pathlib import Path

import pytest

from qss_core.errors import CorruptionError
from qss_store.storage.engine import PassingError
from qss_store.storage.rocksdb.database import RocksDbEngine
from qss_store.storage.rocksdb.errors import translated
from qss_store.storage.rocksdb.memory_budget import MemoryBudget

ROWS = 20_000


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("is_newest", [True, False])
def test_a_scan_over_a_damaged_block_fails(
    tmp_path: Path, *, reverse: bool, is_newest: bool
) -> None:
    budget = MemoryBudget.of(cache_bytes=1024 * 1024, write_buffer_bytes=8 * 1024 * 1024)
    engine = RocksDbEngine(tmp_path, budget)
    engine.create_family("rows")
    batch = engine.batch()
    for number in range(ROWS):
        batch.put("rows", b"%06d" % number, os.urandom(100))
    engine.write(batch)
    engine.flush()
    engine.close()
    largest = max(tmp_path.glob("*.sst"), key=lambda file: file.stat().st_size)
    data = bytearray(largest.read_bytes())
    data[len(data) // 2] ^= 0xFF
    largest.write_bytes(data)
    engine = RocksDbEngine(tmp_path, budget)
    snapshot = engine.view("rows")
    if not is_newest:
        snapshot.pin()
    rows = snapshot.scan(reverse=reverse)
    assert len(list(islice(rows, 1000))) == 1000
    with pytest.raises(CorruptionError):
        list(rows)
    snapshot.close()
    engine.close()


@pytest.mark.parametrize(
    "text",
    [
        "IO error: While open a file: 000012.sst: Too many open files",
        "IO error: While mmap: 000012.sst: Cannot allocate memory",
        "IO error: While lock file: /v/LOCK: Resource temporarily unavailable",
        "IO error: While pthread create: Resource temporarily unavailable",
    ],
)
def test_a_want_of_what_comes_back_is_no_damage(text: str) -> None:
    assert isinstance(translated(Exception(text)), PassingError)
