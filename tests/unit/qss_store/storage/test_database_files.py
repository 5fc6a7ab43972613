"""Reads the write-ahead logs of a database that is closed."""

from pathlib import Path

import pytest

from qss_core.errors import CorruptionError
from qss_store.storage.database_files import check_log
from qss_store.storage.engine import SyncedFiles

SYNCED = SyncedFiles(log_number=12, log_bytes=100, writes=1)


def held(path: Path, **logs: int) -> Path:
    for name, size in logs.items():
        (path / f"{name[1:]}.log").write_bytes(b"x" * size)
    return path


def test_a_log_that_is_as_long_as_was_synced_and_one_that_was_flushed_are_no_damage(
    tmp_path: Path,
) -> None:
    check_log(held(tmp_path, n000012=100), SYNCED)
    (tmp_path / "000012.log").unlink()
    check_log(held(tmp_path, n000013=0), SYNCED)


def test_a_log_that_was_cut_is_told_with_both_lengths(tmp_path: Path) -> None:
    with pytest.raises(CorruptionError, match=r"000012\.log has 99 bytes, and 100 were synced"):
        check_log(held(tmp_path, n000012=99), SYNCED)


def test_older_files_are_told_from_a_log_that_was_deleted(tmp_path: Path) -> None:
    with pytest.raises(CorruptionError, match=r"000012\.log is gone; bring"):
        check_log(tmp_path, SYNCED)
    older = "is gone, and the newest one here is 000007.log: these files are older than the data"
    with pytest.raises(CorruptionError, match=older):
        check_log(held(tmp_path, n000007=100), SYNCED)
