"""Watches whether a pod's volume is there, and has the free space that the pod keeps back.

A pod refuses batches while its volume has less, and a batch or a copy that has no room beyond. It
ends where the volume is gone.
"""

import asyncio
import logging
import math
import os
import shutil
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from qss_client.clock import Clock, SystemClock
from qss_core.errors import DiskFullError
from qss_core.model import PartitionId
from qss_core.quantities import shown_bytes
from qss_core.wire.replica_reports import FullVolume, VolumeUse
from qss_store.runtime.blocking import run_blocking

_LOG = logging.getLogger(__name__)
RESERVE_BYTES = 64 * 1024 * 1024
_LOOK_EVERY_S = 1.0
_LOOKS_OF_A_MEASUREMENT = 10  # The files are counted after each ten looks.
_REFUSED_S = 60.0  # A writer tries its batch again more often, or has ended.
_COPY_REFUSED_S = 600.0  # The pod gets no new copies meanwhile: they would not fit either.
_MISSES_MAX = 3  # So many looks in a row that miss the volume end the pod.
_FAILURES_MAX = 30  # And so many that the volume answers with an error.


class _Refused(NamedTuple):
    """A refused batch or copy; the report names it until `until_s` of the monotonic clock."""

    needed_bytes: int
    until_s: float


_NONE_REFUSED = _Refused(0, -math.inf)


class VolumeWatch:
    """The free space of a pod's volume; `full` is the report while it is too small.

    `use` is the last measurement, which takes a moment and no part of the event loop.
    """

    def __init__(
        self, path: Path, look_every_s: float = _LOOK_EVERY_S, clock: Clock | None = None
    ) -> None:
        self._path = path
        self._now_s = (clock or SystemClock()).monotonic_s
        self._refused_batch = _NONE_REFUSED  # The last one.
        self._refused_copies: dict[PartitionId, _Refused] = {}
        self._look_every_s = look_every_s
        self._found: int | None = None  # The inode of the directory.
        self.full: FullVolume | None = None
        self.use: VolumeUse | None = None

    async def run(self, tell: Callable[[], Awaitable[None]]) -> None:
        """Looks once a second, and calls `tell` after a change; returns when the volume is gone.

        A volume that answers nothing but errors for half a minute is gone, too: a pod that stayed
        would refuse all writes, beside standbys that may take them.
        """
        # All threads may wait for a slow volume: no look waits for one.
        measuring = asyncio.create_task(self._measure(), name="volume-use")
        try:
            await self._look_until_gone(tell)
        finally:
            measuring.cancel()
            await asyncio.gather(measuring, return_exceptions=True)

    async def _measure(self) -> None:
        while True:
            try:
                self.use = await run_blocking(volume_use, self._path)
            except Exception:  # noqa: BLE001 the top of a task.
                _LOG.exception("measuring the volume failed, and is tried again")
            await asyncio.sleep(_LOOKS_OF_A_MEASUREMENT * self._look_every_s)

    async def _look_until_gone(self, tell: Callable[[], Awaitable[None]]) -> None:
        misses = failures = 0
        while misses < _MISSES_MAX and failures < _FAILURES_MAX:
            gone = self.is_gone()
            misses = misses + 1 if gone else 0
            failures = failures + 1 if gone is None else 0
            try:
                if self.look():
                    await tell()
            except Exception:  # noqa: BLE001 the top of a task.
                _LOG.exception("looking at the volume failed, and is tried again")
            await asyncio.sleep(self._look_every_s)

    def is_gone(self) -> bool | None:
        """Whether the volume's directory was there, and is not, or is another one.

        The open files of the databases may take writes for a while, and nobody finds them later. An
        error of a shared file system says nothing of the directory: then it is None.
        """
        try:
            found = self._path.stat().st_ino
        except (FileNotFoundError, NotADirectoryError):
            return self._found is not None
        except OSError:
            return None
        self._found = self._found or found
        return found != self._found

    def refused(self, needed_bytes: int) -> None:
        """Notes a refused batch, which needs so many bytes beyond the pod's reserve."""
        self._refused_batch = _Refused(needed_bytes, self._now_s() + _REFUSED_S)

    async def check_copy(self, partition: PartitionId, needed_bytes: int) -> None:
        """Raises DiskFullError where a partition's copy has no room; then the report names it.

        `needed_bytes`: also for the other copies that are being made.
        """
        usage = await run_blocking(shutil.disk_usage, self._path)
        full = full_volume(usage.free, usage.total, copies={partition: needed_bytes})
        if full is None or partition not in full.refused_copies:
            self._refused_copies.pop(partition, None)
            return
        until_s = self._now_s() + _COPY_REFUSED_S
        self._refused_copies[partition] = _Refused(needed_bytes, until_s)
        raise DiskFullError(f"the volume has {full.words}: free space or make it larger")

    def look(self) -> bool:
        """Reads the free space; returns whether the report has changed, and logs the change."""
        try:
            usage = shutil.disk_usage(self._path)
        except OSError:  # The directory does not exist before the first assignment.
            return False
        expired_bytes = self._forget_expired()
        copies = {partition: copy.needed_bytes for partition, copy in self._refused_copies.items()}
        before = self.full
        now = full_volume(usage.free, usage.total, self._refused_batch.needed_bytes, copies)
        if not _is_other(before, now):
            return False
        self.full = now
        if now is not None and (before is None or before.is_full != now.is_full):
            refuses = "batches" if now.is_full or now.needed_bytes else "copies"
            _LOG.warning("the pod refuses %s: the volume has %s", refuses, now.words)
        elif now is None and usage.free < RESERVE_BYTES + expired_bytes:
            told = "nothing needs more space on the volume for the moment: %s free"
            _LOG.info(told, shown_bytes(usage.free))
        elif now is None:
            _LOG.warning("the volume has enough space again: %s free", shown_bytes(usage.free))
        return True

    def _forget_expired(self) -> int:
        """Forgets refusals of long ago; returns the largest number of bytes that one needed."""
        now_s, expired = self._now_s(), [0]
        if self._refused_batch.until_s <= now_s:
            expired.append(self._refused_batch.needed_bytes)
            self._refused_batch = _NONE_REFUSED
        for partition, copy in [*self._refused_copies.items()]:
            if copy.until_s <= now_s:
                expired.append(copy.needed_bytes)
                del self._refused_copies[partition]
        return max(expired)


def full_volume(
    free: int,
    total: int,
    needed: int = 0,
    copies: Mapping[PartitionId, int] = MappingProxyType({}),
) -> FullVolume | None:
    """The report of a volume that has too little free space; None where it has enough.

    `needed`: the bytes of the batch that was refused last; `copies`: those of refused copies.
    """
    refused = {one: copy for one, copy in copies.items() if free < RESERVE_BYTES + copy}
    if free >= RESERVE_BYTES + needed and not refused:
        return None
    has_room = free >= RESERVE_BYTES
    return FullVolume(
        free_bytes=free,
        kept_back_bytes=RESERVE_BYTES,
        size_bytes=total,
        needed_bytes=needed if has_room and free < RESERVE_BYTES + needed else 0,
        copy_bytes=max(refused.values(), default=0),
        refused_copies=tuple(sorted(refused)),
    )


def volume_use(path: Path) -> VolumeUse | None:
    """Counts the bytes of the files under a pod's directory; None where there is none.

    A file that several names share counts once, and one that goes meanwhile not at all.
    """
    try:
        usage = shutil.disk_usage(path)
    except OSError:
        return None
    sizes: dict[int, int] = {}
    for folder, _, names in os.walk(path):
        for name in names:
            with suppress(OSError):
                found = os.stat(os.path.join(folder, name))
                sizes[found.st_ino] = found.st_size
    return VolumeUse(room_bytes=max(0, usage.free - RESERVE_BYTES), data_bytes=sum(sizes.values()))


def _is_other(before: FullVolume | None, now: FullVolume | None) -> bool:
    """Whether the report changed enough to be sent: small changes of a full volume do not count."""
    if before is None or now is None:
        return before is not now
    if (before.needed_bytes, before.copy_bytes) != (now.needed_bytes, now.copy_bytes):
        return True
    if before.refused_copies != now.refused_copies:
        return True
    return abs(before.free_bytes - now.free_bytes) >= RESERVE_BYTES // 8
