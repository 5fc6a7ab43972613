"""A closed database has released its files."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from qss_core.errors import StoreError
from qss_store.storage.rocksdb.database import RocksDbEngine
from qss_store.storage.rocksdb.memory_budget import MemoryBudget


def test_files_can_be_opened_again_while_somebody_holds_the_closed_engine(tmp_path: Path) -> None:
    budget = MemoryBudget.of(cache_bytes=1024 * 1024, write_buffer_bytes=1024 * 1024)
    closed = RocksDbEngine(tmp_path, budget)
    closed.create_family("rows")
    snapshot = closed.view("rows")
    snapshot.close()
    closed.close()
    again = RocksDbEngine(tmp_path, budget)
    assert "rows" in again.families()
    again.close()


def test_a_close_waits_for_the_sync_that_runs(tmp_path: Path) -> None:
    budget = MemoryBudget.of(cache_bytes=1024 * 1024, write_buffer_bytes=1024 * 1024)
    with ThreadPoolExecutor(1) as pool:
        for number in range(8):
            engine = RocksDbEngine(tmp_path, budget)
            engine.create_family("rows")
            batch = engine.batch()
            batch.put("rows", b"k", os.urandom(4 * 1024 * 1024))
            engine.write(batch)
            syncing = pool.submit(engine.sync)
            engine.close()
            error = syncing.exception()
            assert error is None or isinstance(error, StoreError), number
