"""Reads a database's files without opening the database."""

import errno
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from qss_core.errors import CorruptionError, DiskFullError, StoreError
from qss_store.storage.engine import SyncedFiles

_FULL = (errno.ENOSPC, errno.EDQUOT)
_PASSING = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN)


def sync_directory(path: Path) -> None:
    """Makes the names in a directory durable."""
    directory = os.open(path, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def make_directory(path: Path, sync: Callable[[Path], None] = sync_directory) -> None:
    """Makes a directory and its parents, and syncs each parent."""
    if path.is_dir():
        return
    make_directory(path.parent, sync)
    path.mkdir(exist_ok=True)
    sync(path.parent)


def newest_log(path: Path) -> tuple[int, int]:
    """Number and bytes of the newest write-ahead log of a database; (0, 0) if there is none.

    Empty logs are left out: nothing in them was synced.
    """
    return max((one for one in _logs(path).items() if one[1]), default=(0, 0))


class ShortLogError(CorruptionError):
    """A database was not opened: its write-ahead log holds less than was synced."""


def check_log(path: Path, synced: SyncedFiles) -> None:
    """Raises ShortLogError if a write-ahead log holds less than was synced.

    Call it before the database is opened, which may delete the log. A missing log is no damage if a
    newer one exists: its rows are in tables.
    """
    logs = _logs(path)
    held = logs.get(synced.log_number)
    if held is None and max(logs, default=0) > synced.log_number:
        return
    if held is None:
        raise ShortLogError(
            f"the write-ahead log {synced.log_number:06}.log is gone{_newest_of(logs)}; bring the "
            "files back that hold it"
        )
    if held < synced.log_bytes:
        raise ShortLogError(
            f"the write-ahead log {synced.log_number:06}.log has {held} bytes, and "
            f"{synced.log_bytes} were synced: it was cut short"
        )


def _newest_of(logs: Mapping[int, int]) -> str:
    if not logs:
        return ""
    return f", and the newest one here is {max(logs):06}.log: these files are older than the data"


def _logs(path: Path) -> dict[int, int]:
    """The bytes of each write-ahead log, by its number."""
    logs = {}
    for file in path.glob("*.log"):
        try:
            logs[int(file.stem)] = file.stat().st_size
        except FileNotFoundError:
            continue  # It was deleted meanwhile; its rows are in tables.
    return logs


def translated_os_error(error: OSError) -> StoreError:
    """The StoreError for an OSError of a database's files or their directory."""
    if error.errno in _FULL:
        return DiskFullError(f"the volume is full: {error}")
    if error.errno in _PASSING:
        return StoreError(f"the replica's files cannot be opened now: {error}")
    return CorruptionError(f"the replica's files cannot be read or written: {error}")
