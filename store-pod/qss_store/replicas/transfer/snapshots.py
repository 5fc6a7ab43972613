"""Gives copies of this pod's databases to learners: a checkpoint, read in parts."""

import asyncio
import logging
import shutil
import uuid
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from qss_core.errors import MalformedRequestError, NotReadyError, OverloadedError
from qss_core.model import Ordinal, PartitionId
from qss_store.replicas.pod import Pod
from qss_store.replicas.replica import Replica
from qss_store.replication.frames import FRAME_BYTES_MAX, frame_of
from qss_store.replication.messages import (
    SnapshotEnd,
    SnapshotFile,
    SnapshotManifest,
    SnapshotPartRequest,
    SnapshotRequest,
)
from qss_store.runtime.background_threads import background_threads
from qss_store.runtime.blocking import run_blocking, run_blocking_in
from qss_store.storage.database_files import make_directory

_LOG = logging.getLogger(__name__)
_AT_ONCE_MAX = 4
_KEPT_S = 120.0  # After the last part that was read.
_PART_BYTES_MAX = 8 * 1024 * 1024
_THREADS = background_threads("snapshot")
_GONE = "the snapshot is gone: begin a new one"


@dataclass(slots=True)
class _Snapshot:
    partition: PartitionId
    learner: Ordinal
    path: Path
    files: dict[str, int]  # The sizes of the files, by name.
    used_s: float


class Snapshots:
    """The snapshots that learners are reading; their files are links to those of the databases."""

    def __init__(self, pod: Pod, volume: Path) -> None:
        """The pod removes the snapshots that an earlier process left."""
        self._pod = pod
        self._directory = volume / "snapshots"
        self._held: dict[str, _Snapshot] = {}
        self._making = asyncio.Lock()

    async def begin(self, request: SnapshotRequest) -> SnapshotManifest:
        """Makes a snapshot of a partition's active; its entries are durable here.

        Raises as `ActiveService.check`, OverloadedError while other learners read snapshots, and
        DiskFullError.
        """
        self._pod.registry.check_message_store(request.store_id)
        partition = request.configuration.partition
        held = self._pod.registry.configuration(partition)
        if request.sender not in held.replicas:
            raise MalformedRequestError(
                f"partition {partition} has no replica on pod {request.sender}"
            )
        async with self._making:
            await self._forget_of(partition, request.sender)
            await self.forget_unread()
            if len(self._held) >= _AT_ONCE_MAX:
                raise OverloadedError(f"{_AT_ONCE_MAX} snapshots are being read: try again")
            replica = self._pod.registry.local(partition)
            replica.acting.check(request.configuration.epoch)
            name = uuid.uuid4().hex
            path = self._directory / name
            await run_blocking(make_directory, self._directory)
            try:
                files = await self._make(replica, path, request.sender)
            except BaseException:
                await run_blocking(shutil.rmtree, path, ignore_errors=True)
                raise
            sizes = {one.name: one.size for one in files}
            self._held[name] = _Snapshot(partition, request.sender, path, sizes, self._now_s())
            total = sum(sizes.values())
            _LOG.info("partition %s: a snapshot of %s bytes for a learner", partition, total)
            return SnapshotManifest(snapshot=name, files=files)

    async def _make(
        self, replica: Replica, path: Path, learner: Ordinal
    ) -> tuple[SnapshotFile, ...]:
        await replica.checkpoints.make(path, learner)
        replica.acting.check()
        return await run_blocking(_files_in, path)

    def check_part(self, request: SnapshotPartRequest) -> None:
        """Refuses bytes that no file has. Raises NotReadyError for a snapshot that is gone."""
        self._pod.registry.check_message_store(request.store_id)
        held = self._held.get(request.snapshot)
        if held is None:
            raise NotReadyError(_GONE)
        end = held.files.get(request.file, 0)
        is_part = 0 < request.size <= _PART_BYTES_MAX and request.offset >= 0
        if not is_part or request.offset + request.size > end:
            raise MalformedRequestError(
                "ask for a part of a file of the manifest: within its size, of at most 8 MiB"
            )

    async def part(self, request: SnapshotPartRequest) -> AsyncGenerator[memoryview, None]:
        """The frames of a part of one file: each is read while the one before is sent.

        Raises as `check_part`, and NotReadyError where the file has no such part.
        """
        self.check_part(request)
        held = self._held[request.snapshot]
        path, end = held.path / request.file, request.offset + request.size
        coming: asyncio.Task[memoryview] | None = None
        try:
            for offset in range(request.offset, end, FRAME_BYTES_MAX):
                size = min(FRAME_BYTES_MAX, end - offset)
                read = run_blocking_in(_THREADS, partial(_read, path, offset, size))
                before, coming = coming, asyncio.create_task(read)
                if before is not None:
                    yield await self._given(held, before)
            if coming is not None:
                yield await self._given(held, coming)
        finally:
            if coming is not None:
                coming.cancel()

    async def _given(self, held: _Snapshot, frame: "asyncio.Task[memoryview]") -> memoryview:
        """A frame that was read; its snapshot is in use."""
        held.used_s = self._now_s()
        if (replica := self._pod.registry.replicas.get(held.partition)) is not None:
            replica.checkpoints.keep_entries(held.learner)
        try:
            found = await frame
        except FileNotFoundError as error:
            raise NotReadyError(_GONE) from error
        if not found:
            raise NotReadyError(_GONE)
        return found

    async def end(self, request: SnapshotEnd) -> None:
        """Deletes a snapshot that its learner has read, and greets a learner that installed it."""
        held = self._held.get(request.snapshot)
        replica = None if held is None else self._pod.registry.replicas.get(held.partition)
        if held is not None and replica is not None and request.is_installed:
            replica.followers.learners.installed(held.learner)
            self._pod.send_signal.wake()
        await self._delete(request.snapshot)

    async def _delete(self, snapshot: str) -> None:
        held = self._held.pop(snapshot, None)
        if held is not None:
            await run_blocking(shutil.rmtree, held.path, ignore_errors=True)

    async def forget_unread(self) -> None:
        """Deletes snapshots that were not read for long: their learners may never come back.

        The links keep files that the database has replaced since, on a volume that may fill.
        """
        now_s = self._now_s()
        old = [name for name, one in self._held.items() if now_s - one.used_s > _KEPT_S]
        for name in old:
            await self._delete(name)

    async def _forget_of(self, partition: PartitionId, learner: Ordinal) -> None:
        """Deletes a learner's earlier snapshots: the learner asks again, so it lost the answer."""
        asked = (partition, learner)
        old = [name for name, one in self._held.items() if (one.partition, one.learner) == asked]
        for name in old:
            await self._delete(name)

    def _now_s(self) -> float:
        return self._pod.clock.monotonic_s()


def _files_in(path: Path) -> tuple[SnapshotFile, ...]:
    files = sorted(one for one in path.iterdir() if one.is_file())
    return tuple(SnapshotFile(name=one.name, size=one.stat().st_size) for one in files)


def _read(path: Path, offset: int, size: int) -> memoryview:
    with path.open("rb") as file:
        file.seek(offset)
        return frame_of(file, size)
