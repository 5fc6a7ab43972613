"""A closed database lets go of its files."""

from pathlib import Path

from qss_store.engine.rocksdb import Budget, RocksDbEngine


def test_files_can_be_opened_again_while_somebody_holds_the_closed_engine(tmp_path: Path) -> None:
    budget = Budget.of(cache_bytes=1024 * 1024, write_buffer_bytes=1024 * 1024)
    closed = RocksDbEngine(tmp_path, budget)
    closed.create_family("rows")
    snapshot = closed.snapshot("rows")
    snapshot.close()
    closed.close()
    again = RocksDbEngine(tmp_path, budget)
    assert "rows" in again.families()
    again.close()
