"""Tells what an error of RocksDB means: a full disk, damage, or a failure that passes."""

from qss_core.errors import CorruptionError, DiskFullError, StoreError
from qss_store.storage.engine import PassingError

FULL = "the volume is full: free space or make it larger; nothing is lost"
# Errors that end by themselves: locked files, limits of this process.
_PASSING = (
    "/LOCK: ",
    "Too many open files",
    "Cannot allocate memory",
    "Resource temporarily unavailable",
)


def translated(error: Exception) -> StoreError:
    """The StoreError for a RocksDB error, which is a bare exception with a text."""
    text = str(error)
    if "No space left" in text or "NoSpace" in text:
        return DiskFullError(FULL)
    if "Corruption" in text:
        return CorruptionError(f"the replica's files are damaged: {text[:200]}")
    if "previous error" in text:
        return PassingError("an earlier write failed: the database is being opened again")
    if "IO error" in text and not any(passing in text for passing in _PASSING):
        return CorruptionError(f"the replica's files cannot be read or written: {text[:200]}")
    if "IO error" in text:
        return PassingError(f"the replica's files cannot be opened now: {text[:200]}")
    return StoreError(f"RocksDB failed: {text[:200]}")
