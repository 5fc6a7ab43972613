"""Copies the database of a partition's active to a learner of this pod, file by file."""

import asyncio
import logging
import os
import shutil
import zlib
from collections import deque
from pathlib import Path

from qss_core.errors import CorruptionError, DiskFullError, NotReadyError, StoreError
from qss_core.model import Ordinal, PartitionConfiguration, PartitionId
from qss_core.wire.replica_reports import CopyReport
from qss_store.replicas.pod import Pod
from qss_store.replication.messages import (
    SNAPSHOT_END_PATH,
    SNAPSHOT_PART_PATH,
    SNAPSHOT_PATH,
    SnapshotEnd,
    SnapshotFile,
    SnapshotManifest,
    SnapshotPart,
    SnapshotPartRequest,
    SnapshotRequest,
    decode_message,
    encode_message,
)
from qss_store.runtime.blocking import run_blocking
from qss_store.runtime.peer_client import Transport
from qss_store.storage.database_files import (
    make_directory,
    sync_directory,
    translated_os_error,
)

_LOG = logging.getLogger(__name__)
_AT_ONCE_MAX = 2
_PART_BYTES = 1024 * 1024
_PARTS_AHEAD = 3  # Asked for while the one before is written.
_TRIES = 5  # Of one part; what was written stays.
_RETRY_S = 0.2


class SnapshotCopies:
    """The copies that this pod's learners are making: one of a partition at a time."""

    def __init__(self, pod: Pod, volume: Path, transport: Transport, timeout_s: float) -> None:
        """Keeps the files that have arrived under `incoming` on the volume."""
        self._pod = pod
        self._directory = volume / "incoming"
        self._transport = transport
        self._timeout_s = timeout_s
        self._tasks: dict[PartitionId, asyncio.Task[None]] = {}
        self._slots = asyncio.Semaphore(_AT_ONCE_MAX)
        self._free_at_s = 0.0  # When the set rate allows the next part.

    def begin(self, configuration: PartitionConfiguration, source: Ordinal) -> None:
        """Starts a copy from the partition's active, unless one is being made."""
        partition = configuration.partition
        running = self._tasks.get(partition)
        if running is None or running.done():
            work = self._copy(configuration, source)
            task = asyncio.create_task(work, name=f"copy-{partition}")
            self._tasks[partition] = task
            task.add_done_callback(lambda _: self._forget(partition, task))

    def _forget(self, partition: PartitionId, task: "asyncio.Task[None]") -> None:
        if self._tasks.get(partition) is task:
            del self._tasks[partition]

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        """The copies that run; the pod cancels them when it stops."""
        return [*self._tasks.values()]

    async def _copy(self, configuration: PartitionConfiguration, source: Ordinal) -> None:
        partition = configuration.partition
        path = self._directory / str(partition)
        try:
            async with self._slots:
                before = self._pod.copied_over(configuration)
                await run_blocking(_begin, path)
                await self._fetch(configuration, source, path)
                await self._pod.install(configuration, path, before)
        except StoreError as error:
            _LOG.warning("partition %s could not be copied: %s", partition, error.message)
        except OSError as error:
            why = translated_os_error(error).message
            _LOG.warning("partition %s could not be copied: %s", partition, why)
        except Exception:  # noqa: BLE001 the top of a task.
            _LOG.exception("partition %s could not be copied", partition)
        finally:
            await run_blocking(shutil.rmtree, path, ignore_errors=True)

    async def _fetch(
        self, configuration: PartitionConfiguration, source: Ordinal, path: Path
    ) -> None:
        store_id = self._pod.registry.placed().definition.store_id
        request = SnapshotRequest(
            store_id=store_id, sender=self._pod.ordinal, configuration=configuration
        )
        answer = await self._ask(source, SNAPSHOT_PATH, encode_message(request))
        manifest = decode_message(answer, SnapshotManifest)
        total = sum(one.size for one in manifest.files)
        partition = configuration.partition
        _LOG.info("partition %s: %s bytes are copied", partition, total)
        copies, done = self._pod.registry.copies, 0
        try:
            for file in manifest.files:
                copies[partition] = CopyReport(
                    partition=partition, done_bytes=done, total_bytes=total
                )
                await self._fetch_file(source, manifest.snapshot, file, path)
                done += file.size
            await run_blocking(_sync, path)
        finally:
            copies.pop(partition, None)
            end = SnapshotEnd(snapshot=manifest.snapshot)
            try:
                await self._ask(source, SNAPSHOT_END_PATH, encode_message(end))
            except StoreError as error:
                _LOG.debug("the snapshot is deleted later: %s", error.message)

    async def _fetch_file(
        self, source: Ordinal, snapshot: str, file: SnapshotFile, path: Path
    ) -> None:
        if Path(file.name).name != file.name or file.name.startswith("."):
            raise CorruptionError(f"{file.name!r} is no name of a database's file")
        target = path / file.name
        await run_blocking(target.touch)
        coming: deque[asyncio.Task[bytes]] = deque()
        try:
            for offset in range(0, file.size, _PART_BYTES):
                size = min(_PART_BYTES, file.size - offset)
                await self._pace(size)
                asked = self._part(source, snapshot, file.name, offset, size)
                coming.append(asyncio.create_task(asked))
                if len(coming) > _PARTS_AHEAD:
                    await run_blocking(_append, target, await coming.popleft())
            while coming:
                await run_blocking(_append, target, await coming.popleft())
        finally:
            for task in coming:
                task.cancel()
            await asyncio.gather(*coming, return_exceptions=True)

    async def _part(
        self, source: Ordinal, snapshot: str, name: str, offset: int, size: int
    ) -> bytes:
        """A part of a file; after a failure it is asked for again, a few times."""
        request = SnapshotPartRequest(
            store_id=self._pod.registry.placed().definition.store_id,
            snapshot=snapshot,
            file=name,
            offset=offset,
            size=size,
        )
        body = encode_message(request)
        for number in range(_TRIES):
            try:
                part = decode_message(
                    await self._ask(source, SNAPSHOT_PART_PATH, body), SnapshotPart
                )
            except NotReadyError:
                raise  # The snapshot is gone.
            except StoreError:
                if number == _TRIES - 1:
                    raise
                await asyncio.sleep(_RETRY_S * 2**number)
                continue
            checksum = await run_blocking(zlib.crc32, part.data)
            if len(part.data) == size and checksum == part.checksum:
                return part.data
        raise CorruptionError(f"parts of {name} arrived damaged {_TRIES} times")

    async def _pace(self, size: int) -> None:
        """Waits before a part as long as the set rate says, over all copies of this pod."""
        rate = self._pod.registry.placed().settings.snapshot_bytes_per_s
        now_s = self._pod.clock.monotonic_s()
        begins_s = max(self._free_at_s, now_s)
        self._free_at_s = begins_s + size / rate
        if begins_s > now_s:
            await asyncio.sleep(begins_s - now_s)

    async def _ask(self, pod: Ordinal, path: str, body: bytes) -> bytes:
        address = self._pod.registry.address(pod)
        return await self._transport.send(f"{address.changelog}/{path}", body, self._timeout_s)


def _begin(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
    make_directory(path)


def _append(path: Path, data: bytes) -> None:
    try:
        with path.open("ab") as file:
            file.write(data)
    except OSError as error:
        translated = translated_os_error(error)
        if isinstance(translated, DiskFullError):
            raise translated from error
        raise


def _sync(path: Path) -> None:
    for file in path.iterdir():
        descriptor = os.open(file, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    sync_directory(path)
