"""A column family that could not be dropped is still there."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from qss_core.errors import StoreError
from qss_store.storage.rocksdb import MemoryBudget, RocksDbEngine


@contextmanager
def no_file_grows(path: Path) -> Iterator[None]:
    """The operating system refuses to make any file of this process larger than the manifest is."""
    size = os.stat(next(path.glob("MANIFEST-*"))).st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_family_that_could_not_be_dropped_is_dropped_later(tmp_path: Path) -> None:
    budget = MemoryBudget.of(cache_bytes=1024 * 1024, write_buffer_bytes=1024 * 1024)
    engine = RocksDbEngine(tmp_path, budget)
    engine.create_family("rows")
    batch = engine.batch()
    batch.put("rows", b"k", b"v")
    engine.write(batch)
    engine.sync()
    with no_file_grows(tmp_path), pytest.raises(StoreError) as refused:
        engine.drop_family("rows")
    assert "rows" in engine.families(), refused.value
    assert engine.get("rows", b"k") == b"v"
    with pytest.raises(StoreError):  # RocksDB refuses it until the database is opened again.
        engine.drop_family("rows")
    engine.close()

    again = RocksDbEngine(tmp_path, budget)  # The error that is kept does not keep the lock.
    again.drop_family("rows")
    again.create_family("rows")
    assert again.get("rows", b"k") is None
    again.close()
    assert refused.value.message
