"""Whether a pod's volume has the room without which no batch is taken; told when that changes."""

import asyncio
import logging
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

from qss_core.quantities import shown_bytes
from qss_core.wire.replica_reports import FullVolume

_LOG = logging.getLogger(__name__)
RESERVE_BYTES = 64 * 1024 * 1024
_LOOK_EVERY_S = 1.0


class VolumeRoom:
    """The room on the volume of a pod, as it was seen last."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.full: FullVolume | None = None

    async def run(self, tell: Callable[[], Awaitable[None]]) -> None:
        """Looks once a second; tells of each change."""
        while True:
            if self.look():
                await tell()
            await asyncio.sleep(_LOOK_EVERY_S)

    def look(self) -> bool:
        """Whether the report has changed; a full volume and its end are logged once each."""
        try:
            usage = shutil.disk_usage(self._path)
        except OSError:  # The directory is made with the assignment.
            return False
        before, now = self.full, full_volume(usage.free, usage.total)
        if not _is_news(before, now):
            return False
        self.full = now
        if now is not None and before is None:
            _LOG.warning("no batch is taken: the volume has %s", now.words)
        elif now is None:
            _LOG.warning("the volume has room again: %s are free", shown_bytes(usage.free))
        return True


def full_volume(free: int, total: int) -> FullVolume | None:
    """What is reported of a volume with so many bytes."""
    if free >= RESERVE_BYTES:
        return None
    return FullVolume(free_bytes=free, kept_back_bytes=RESERVE_BYTES, size_bytes=total)


def _is_news(before: FullVolume | None, now: FullVolume | None) -> bool:
    """Whether to tell: not of each byte, or every look would be news."""
    if before is None or now is None:
        return before is not now
    return abs(before.free_bytes - now.free_bytes) >= RESERVE_BYTES // 8
