"""Checks that a volume has room for another write."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

from qss_core.errors import CorruptionError, DiskFullError
from qss_core.quantities import shown_bytes

_FULL_BELOW_BYTES = 32 * 1024 * 1024
# With so much room the volume cannot fill up before the next look, so small writes pass.
_PLENTY_BYTES = 4 * 1024 * 1024 * 1024
_LOOK_EVERY_S = 0.1
_SMALL_BYTES = 1024 * 1024


@dataclass(slots=True)
class Room:
    """The room on the volume of a pod, which all of its databases share."""

    plenty_until_s: float = 0.0  # Monotonic.

    def check(self, path: Path, more_bytes: int, *, makes_room: bool = False) -> None:
        """Raises DiskFullError for a write that could fill the volume.

        After a write-ahead log has met a full volume once, it takes no write until the database is
        opened again, even if there is room by then. A write that `makes_room` may use half of the
        reserve. Raises CorruptionError where the database's directory is gone.
        """
        now_s = time.monotonic()
        if now_s < self.plenty_until_s and more_bytes < _SMALL_BYTES:
            return
        try:
            volume = os.statvfs(path)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise CorruptionError(f"the replica's files are gone: {error}") from error
        except OSError as error:  # This may pass: the write is tried again, as on a full disk.
            raise DiskFullError(f"the volume does not tell its free space: {error}") from error
        free = volume.f_bavail * volume.f_frsize
        kept_back = _FULL_BELOW_BYTES // 2 if makes_room else _FULL_BELOW_BYTES
        if free < kept_back + more_bytes:
            raise DiskFullError(_full(free, kept_back, more_bytes))
        self.plenty_until_s = now_s + _LOOK_EVERY_S if free > _PLENTY_BYTES else 0.0


def no_room_to_open(path: Path) -> DiskFullError:
    """The error of a database that was not opened, since RocksDB writes files to open one."""
    volume = os.statvfs(path)
    free, size = (blocks * volume.f_frsize for blocks in (volume.f_bavail, volume.f_blocks))
    return DiskFullError(
        f"the volume is full: it has {shown_bytes(free)} free of {shown_bytes(size)}, too little "
        "to open a database: free space or make the volume larger; the database is opened then, "
        "and nothing is lost"
    )


def _full(free: int, kept_back: int, more_bytes: int) -> str:
    wanted = f", and a write needs {shown_bytes(more_bytes)}" if more_bytes else ""
    return (
        f"the volume is full: it has {shown_bytes(free)} free, of which {shown_bytes(kept_back)} "
        f"are kept back{wanted}: free space or make it larger; nothing is lost"
    )
