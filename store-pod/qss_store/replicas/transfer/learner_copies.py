"""Copies the database of a partition's active to a learner of this pod, file by file."""

import asyncio
import logging
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from qss_core.errors import (
    CorruptionError,
    DiskFullError,
    NotReadyError,
    StaleEpochError,
    StoreError,
)
from qss_core.model import Ordinal, PartitionConfiguration, PartitionId
from qss_core.wire.replica_reports import CopyReport
from qss_store.replicas.pod import Pod
from qss_store.replicas.transfer.copied_file import CopiedFile
from qss_store.replication.messages import (
    SNAPSHOT_END_PATH,
    SNAPSHOT_PART_PATH,
    SNAPSHOT_PATH,
    SnapshotEnd,
    SnapshotFile,
    SnapshotManifest,
    SnapshotPartRequest,
    SnapshotRequest,
    decode_message,
    encode_message,
)
from qss_store.runtime.blocking import run_blocking
from qss_store.runtime.metrics import Carried
from qss_store.runtime.peer_client import Transport
from qss_store.storage.database_files import (
    make_directory,
    sync_directory,
    translated_os_error,
)

_LOG = logging.getLogger(__name__)
_AT_ONCE_MAX = 2
_FILES_AT_ONCE = 2  # One file waits for its next part, or its sync, while the other's bytes come.
_PART_BYTES_MIN, _PART_BYTES_MAX = 64 * 1024, 8 * 1024 * 1024  # The limits of one request.
_LATE_MAX_S = 0.5  # So much later than the set rate allows, a copy makes up for it.
_TRIES = 5  # Tries in turn that bring no bytes; the bytes of earlier tries stay.
_RETRY_S = 0.2
_NO_ROOM_MIN_S, _NO_ROOM_MAX_S = 1.0, 30.0  # Before a copy that has no room is tried again.


@dataclass(slots=True)
class _NoRoom:
    """A copy that had no room waits until then, on the monotonic clock: longer after each try."""

    pause_s: float
    until_s: float


@dataclass(slots=True)
class _Snapshot:
    manifest: SnapshotManifest
    is_installed: bool = False


class LearnerCopies:
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
        self._no_room: dict[PartitionId, _NoRoom] = {}
        self._files: dict[PartitionId, list[CopiedFile]] = {}  # Of each copy, whole or under way.

    def begin(self, configuration: PartitionConfiguration, source: Ordinal) -> None:
        """Starts a copy from the partition's active, unless one is being made, or waits for room.

        The active asks for it each second.
        """
        partition = configuration.partition
        running, waits = self._tasks.get(partition), self._no_room.get(partition)
        if waits is not None and self._pod.clock.monotonic_s() < waits.until_s:
            return
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
                before = self._pod.registry.copied_over(configuration)
                await run_blocking(_begin, path)
                check = partial(self._pod.registry.check_source, configuration)
                async with self._snapshot(configuration, source) as snapshot:
                    await self._fetch(partition, source, snapshot.manifest, path, check)
                    is_rebuilt = self._had_entries(partition)
                    await self._pod.install(configuration, path, before)
                    snapshot.is_installed = True
                self._no_room.pop(partition, None)
                self._pod.metrics.replication.copied(is_rebuilt=is_rebuilt)
        except DiskFullError as error:
            pause_s = self._wait_for_room(partition)
            _LOG.warning(
                "partition %s could not be copied: %s; it is tried again in %g s",
                partition,
                error.message,
                pause_s,
            )
        except StoreError as error:
            _LOG.warning("partition %s could not be copied: %s", partition, error.message)
        except OSError as error:
            why = translated_os_error(error).message
            _LOG.warning("partition %s could not be copied: %s", partition, why)
        except Exception:  # noqa: BLE001 the top of a task.
            _LOG.exception("partition %s could not be copied", partition)
        finally:
            await run_blocking(shutil.rmtree, path, ignore_errors=True)

    def _wait_for_room(self, partition: PartitionId) -> float:
        """Lets the partition's next copy wait; returns for how many seconds."""
        before = self._no_room.get(partition)
        pause_s = min(_NO_ROOM_MAX_S, 2 * before.pause_s) if before else _NO_ROOM_MIN_S
        self._no_room[partition] = _NoRoom(pause_s, self._pod.clock.monotonic_s() + pause_s)
        return pause_s

    def _had_entries(self, partition: PartitionId) -> bool:
        """Whether the copy takes the place of a replica, and not of an empty learner."""
        registry = self._pod.registry
        replica = registry.replicas.get(partition)
        return partition in registry.unopened.partitions if replica is None else replica.log.end > 0

    @asynccontextmanager
    async def _snapshot(
        self, configuration: PartitionConfiguration, source: Ordinal
    ) -> AsyncIterator["_Snapshot"]:
        """A snapshot of the active's database, which the active deletes after the block."""
        store_id = self._pod.registry.placed().definition.store_id
        request = SnapshotRequest(
            store_id=store_id, sender=self._pod.ordinal, configuration=configuration
        )
        answer = await self._ask(source, SNAPSHOT_PATH, encode_message(request))
        snapshot = _Snapshot(decode_message(answer, SnapshotManifest))
        try:
            yield snapshot
        finally:
            end = SnapshotEnd(
                snapshot=snapshot.manifest.snapshot, is_installed=snapshot.is_installed
            )
            try:
                await self._ask(source, SNAPSHOT_END_PATH, encode_message(end))
            except StoreError as error:
                _LOG.debug("the snapshot is deleted later: %s", error.message)

    async def _fetch(
        self,
        partition: PartitionId,
        source: Ordinal,
        manifest: SnapshotManifest,
        path: Path,
        check: Callable[[], object],
    ) -> None:
        """Fetches all files, if they have room beside the missing bytes of the other copies.

        `check` raises where the copy is of no use any more; it is called before each part.
        """
        total = sum(one.size for one in manifest.files)
        copies, left, done = self._pod.registry.copies, iter(manifest.files), 0
        files = self._files[partition] = []

        async def fetch_files() -> None:
            nonlocal done
            for file in left:
                files.append(_target(path, file))
                await self._fetch_file(source, manifest.snapshot, file, files[-1], check)
                done += file.size
                copies[partition] = CopyReport(
                    partition=partition, done_bytes=done, total_bytes=total
                )

        copies[partition] = CopyReport(partition=partition, done_bytes=0, total_bytes=total)
        try:
            await self._pod.room.check_copy(partition, self._lacking_bytes())
            _LOG.info("partition %s: %s bytes are copied", partition, total)
            async with asyncio.TaskGroup() as group:
                for _ in range(_FILES_AT_ONCE):
                    group.create_task(fetch_files())
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from failed
        finally:
            copies.pop(partition, None)
            self._files.pop(partition, None)
        await run_blocking(sync_directory, path)

    def _lacking_bytes(self) -> int:
        """The bytes that the copies have not written yet: the others take up space already."""
        total = sum(one.total_bytes for one in self._pod.registry.copies.values())
        return total - sum(file.size for files in self._files.values() for file in files)

    async def _fetch_file(
        self,
        source: Ordinal,
        snapshot: str,
        file: SnapshotFile,
        target: CopiedFile,
        check: Callable[[], object],
    ) -> None:
        """Copies and syncs a file; after a failure it goes on behind the bytes that it has."""
        tries = 0
        try:
            await run_blocking(target.open)
            while target.size < file.size:
                before = target.size
                try:
                    await self._fetch_part(source, snapshot, file, target, check)
                except (NotReadyError, DiskFullError, StaleEpochError):
                    raise  # The snapshot is gone, of no use, or there is no space for it.
                except StoreError:
                    tries = 1 if target.size > before else tries + 1
                    if tries == _TRIES:
                        raise
                    await asyncio.sleep(_RETRY_S * 2**tries)
            await run_blocking(target.end)
        except BaseException:
            await run_blocking(target.close)
            raise

    async def _fetch_part(
        self,
        source: Ordinal,
        snapshot: str,
        file: SnapshotFile,
        target: CopiedFile,
        check: Callable[[], object],
    ) -> None:
        settings = self._pod.registry.placed().settings
        a_second = max(_PART_BYTES_MIN, settings.snapshot_bytes_per_s)
        size = min(_PART_BYTES_MAX, a_second, file.size - target.size)
        await self._pace(size)
        check()
        request = SnapshotPartRequest(
            store_id=self._pod.registry.placed().definition.store_id,
            snapshot=snapshot,
            file=file.name,
            offset=target.size,
            size=size,
        )
        url = f"{self._pod.registry.address(source).changelog}/{SNAPSHOT_PART_PATH}"
        body = encode_message(request)
        before, end = target.size, target.size + size
        try:
            await self._transport.download(url, body, target.take, self._timeout_s)
        finally:
            self._pod.metrics.replication.received(Carried.SNAPSHOT, target.size - before)
        if target.size < end:
            raise StoreError(f"a part of {file.name} arrived incompletely")

    async def _pace(self, size: int) -> None:
        """Waits before a part as long as the set rate says, over all copies of this pod."""
        rate = self._pod.registry.placed().settings.snapshot_bytes_per_s
        now_s = self._pod.clock.monotonic_s()
        begins_s = max(self._free_at_s, now_s - _LATE_MAX_S)
        self._free_at_s = begins_s + size / rate
        if begins_s > now_s:
            await asyncio.sleep(begins_s - now_s)

    async def _ask(self, pod: Ordinal, path: str, body: bytes) -> bytes:
        address = self._pod.registry.address(pod)
        return await self._transport.send(f"{address.changelog}/{path}", body, self._timeout_s)


def _target(path: Path, file: SnapshotFile) -> CopiedFile:
    """The file to write. Raises CorruptionError for a name that leads to another directory."""
    if Path(file.name).name != file.name or file.name.startswith("."):
        raise CorruptionError(f"{file.name!r} is no name of a database's file")
    return CopiedFile(path / file.name)


def _begin(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)
    make_directory(path)
