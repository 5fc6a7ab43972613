"""An active makes snapshots of its database, and learners copy their files."""

import asyncio
import hashlib
import logging
import shutil
from collections.abc import Awaitable, Callable
from functools import partial
from io import BufferedIOBase, BufferedReader, BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from qss_core.errors import (
    CorruptionError,
    MalformedRequestError,
    NotReadyError,
    StaleEpochError,
)
from qss_core.model import Epoch, Ordinal, PartitionId
from qss_core.wire.messages import problem_of
from qss_store.replicas.transfer.learner_copies import LearnerCopies
from qss_store.replicas.volume.volume_watch import RESERVE_BYTES
from qss_store.replication.frames import frame_of
from qss_store.replication.messages import (
    SNAPSHOT_PATH,
    Done,
    Refused,
    SnapshotEnd,
    SnapshotFile,
    SnapshotManifest,
    SnapshotPartRequest,
    SnapshotRequest,
    decode_message,
    encode_message,
)
from qss_testing.fakes.virtual_time import SetClock
from qss_testing.pods.stores import configuration
from qss_testing.pods.write_cluster import (
    lead,
    replica_of,
    replicated,
    rows_of,
    write,
    write_cluster,
)
from qss_testing.waiting import wait_until_async

PART_BYTES = 64 * 1024  # The smallest part that a learner asks for.


async def test_a_learner_that_asks_again_gets_a_snapshot_in_place_of_its_old_one(
    tmp_path: Path,
) -> None:
    """The answers to its first requests were lost: nobody reads those snapshots."""
    async with replicated(tmp_path) as cluster:
        request = SnapshotRequest(
            store_id=cluster.definition.store_id,
            sender=Ordinal(1),
            configuration=cluster.configurations[0],
        )
        snapshots = cluster.pods[0].services.snapshots
        for _ in range(6):
            found = await snapshots.begin(request)
        assert [path.name for path in (tmp_path / "0" / "snapshots").iterdir()] == [found.snapshot]
        part = SnapshotPartRequest(
            store_id=request.store_id, snapshot=found.snapshot, file="../x", offset=0, size=1
        )
        with pytest.raises(MalformedRequestError):
            snapshots.check_part(part)


async def test_a_snapshot_that_nobody_reads_any_more_is_deleted(tmp_path: Path) -> None:
    """Where its learner had gone for good, its links kept old files until the pod ended."""
    clock = SetClock()
    async with write_cluster(tmp_path, partitions=1, clock=clock) as cluster:
        await lead(cluster, 0, 2, learners=[1])
        services, held = cluster.pods[0].services, tmp_path / "0" / "snapshots"
        request = SnapshotRequest(
            store_id=cluster.definition.store_id,
            sender=Ordinal(1),
            configuration=cluster.configurations[0],
        )
        found = await services.snapshots.begin(request)
        clock.now_s += 119
        await services.sweeper.round()
        assert [path.name for path in held.iterdir()] == [found.snapshot]
        clock.now_s += 2
        await services.sweeper.round()
        assert [*held.iterdir()] == []


async def test_a_learner_that_has_installed_its_copy_is_greeted_at_once(tmp_path: Path) -> None:
    """It waited for the next hello, up to a second, and then as long for entries."""
    async with replicated(tmp_path) as cluster:
        request = SnapshotRequest(
            store_id=cluster.definition.store_id,
            sender=Ordinal(1),
            configuration=cluster.configurations[0],
        )
        snapshots, signal = cluster.pods[0].services.snapshots, cluster.pods[0].pod.send_signal
        woken: list[bool] = []
        for is_installed in (False, True):
            found = await snapshots.begin(request)
            signal.connect(partial(woken.append, is_installed), lambda: None)
            await snapshots.end(SnapshotEnd(snapshot=found.snapshot, is_installed=is_installed))
        assert woken == [True]
        followers = replica_of(cluster, 0).followers
        followers.learners.installed(Ordinal(1))
        assert followers.owes_hello(Ordinal(1))
        assert followers.sent_s(Ordinal(1)) == float("-inf")


async def test_a_learner_that_has_installed_its_copy_needs_no_other_one(tmp_path: Path) -> None:
    """Its earlier database had refused entries while the copy was made."""
    async with write_cluster(tmp_path, partitions=1) as cluster:
        await lead(cluster, 0, 2, learners=[1])
        followers, refusal = replica_of(cluster, 0).followers, CorruptionError("other entries")
        told = Refused(partition=PartitionId(0), problem=problem_of(refusal))
        followers.refused(Ordinal(1), Epoch(2), told)
        followers.learners.installed(Ordinal(1))
        assert not followers.learners.takes_copy(Ordinal(1))


async def test_a_copy_is_kept_where_the_epoch_changed_and_the_active_did_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A second standby's copy was made again once the first standby had joined."""
    caplog.set_level(logging.INFO)
    parts = (hashlib.sha512(str(part).encode()).digest() for part in range(8192))
    rows = {b"k": b"".join(parts)}  # 512 KiB that no compression makes smaller.
    async with replicated(tmp_path, snapshot_bytes_per_s=256 * 1024) as cluster:
        writer = cluster.writer(0)
        await write(writer, await writer.epoch(), 0, {0: rows})
        await lead(cluster, 0, 3, learners=[1])
        registry, damaged = cluster.pods[1].pod.registry, replica_of(cluster, 1)
        damaged.health.meet_damage(CorruptionError("a block is damaged"))
        await wait_until_async(lambda: bool(registry.copies))
        await lead(cluster, 0, 4, learners=[1])
        await wait_until_async(lambda: registry.replicas.get(PartitionId(0)) not in (None, damaged))
        assert caplog.text.count("bytes for a learner") == 1
        report = cluster.pods[0].pod.report
        await wait_until_async(lambda: report().replicas[0].caught_up == (1,))
        assert rows_of(replica_of(cluster, 1)) == rows
        assert replica_of(cluster, 1).log.configuration.epoch == 4


async def test_a_copy_of_an_active_that_has_changed_is_not_kept(tmp_path: Path) -> None:
    async with replicated(tmp_path, pods=3) as cluster:
        await lead(cluster, 0, 3, standbys=[2])
        await lead(cluster, 0, 4, standbys=[2], learners=[1])
        registry, held = cluster.pods[1].pod.registry, cluster.configurations[0]
        before = registry.copied_over(held)
        await cluster.assign([configuration(0, 2, epoch=5, standbys=[0], learners=[1])])
        with pytest.raises(StaleEpochError, match="its active on pod 2 now"):
            registry.check_copied(held, before)


class _HandedOver:
    """An active with a snapshot of one file in three parts, which loses its role at the first."""

    def __init__(self, lose_role: Callable[[], Awaitable[None]]) -> None:
        self.parts = 0  # That were asked for.
        self._lose_role = lose_role

    async def post(self, url: str, message: object, kind: type[Any], timeout_s: float) -> Any:
        raise AssertionError("a copy sends no JSON")

    async def send(self, url: str, body: bytes, timeout_s: float) -> bytes:
        if not url.endswith(SNAPSHOT_PATH):
            return encode_message(Done())
        files = (SnapshotFile(name="a.sst", size=3 * PART_BYTES),)
        return encode_message(SnapshotManifest(snapshot="s", files=files))

    async def download(
        self, url: str, body: bytes, take: Callable[[BufferedIOBase], None], timeout_s: float
    ) -> None:
        self.parts += 1
        part = bytes(PART_BYTES)
        take(BufferedReader(BytesIO(frame_of(BytesIO(part), len(part)))))
        await self._lose_role()


async def test_a_copy_of_a_deposed_active_is_given_up_between_two_parts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It was fetched to its end, which takes long, and thrown away."""
    async with replicated(tmp_path, pods=3, snapshot_bytes_per_s=PART_BYTES) as cluster:
        await lead(cluster, 0, 3, standbys=[2])
        await lead(cluster, 0, 4, standbys=[2], learners=[1])
        deposed = configuration(0, 2, epoch=5, standbys=[0], learners=[1])
        source = _HandedOver(lambda: cluster.assign([deposed]))
        copies = LearnerCopies(cluster.pods[1].pod, tmp_path / "volume", source, 5.0)
        copies.begin(cluster.configurations[0], Ordinal(0))
        async with asyncio.timeout(20):
            await asyncio.gather(*copies.tasks)
        assert source.parts == 1
        assert "could not be copied: partition 0 has its active on pod 2 now" in caplog.text


async def test_entries_behind_a_copy_are_kept_while_another_learner_joins(tmp_path: Path) -> None:
    """The copy would have to be made again: the log would not reach back to it."""
    async with write_cluster(tmp_path, pods=3, partitions=1) as cluster:
        await cluster.stop_pod(1)
        await cluster.stop_pod(2)
        await lead(cluster, 0, 2, learners=[1, 2])
        active, report = cluster.pods[0], cluster.pods[0].pod.report

        async def join(learner: int, *caught_up: int) -> None:
            await cluster.start_pod(learner)
            await cluster.assign(cluster.configurations)
            await wait_until_async(lambda: report().replicas[0].caught_up == caught_up)

        request = SnapshotRequest(
            store_id=cluster.definition.store_id,
            sender=Ordinal(2),
            configuration=cluster.configurations[0],
        )
        await active.services.snapshots.begin(request)
        await join(1, 1)
        assert [*replica_of(cluster, 0).changelog.retention.pins] == [2]
        await join(2, 1, 2)
        assert not replica_of(cluster, 0).changelog.retention.pins


class _Source:
    """An active with a snapshot of three files, which is gone once two are asked for."""

    def __init__(self) -> None:
        self.snapshots = 0  # That were asked for.
        self.asked: list[str] = []
        self.given_up: list[str] = []
        self._is_full = asyncio.Event()

    async def post(self, url: str, message: object, kind: type[Any], timeout_s: float) -> Any:
        raise AssertionError("a copy sends no JSON")

    async def send(self, url: str, body: bytes, timeout_s: float) -> bytes:
        if not url.endswith(SNAPSHOT_PATH):
            return encode_message(Done())
        self.snapshots += 1
        files = tuple(SnapshotFile(name=name, size=10) for name in ("a.sst", "b.sst", "c.sst"))
        return encode_message(SnapshotManifest(snapshot="s", files=files))

    async def download(
        self, url: str, body: bytes, take: Callable[[BufferedIOBase], None], timeout_s: float
    ) -> None:
        name = decode_message(body, SnapshotPartRequest).file
        self.asked.append(name)
        if len(self.asked) == 2:
            self._is_full.set()
            raise NotReadyError("the snapshot is gone")
        try:
            await self._is_full.wait()
            await asyncio.Event().wait()
        finally:
            self.given_up.append(name)


async def test_a_learner_fetches_two_files_at_a_time_and_gives_up_both(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with replicated(tmp_path) as cluster:
        await lead(cluster, 0, 3, learners=[1])
        source, pod = _Source(), cluster.pods[1].pod
        copies = LearnerCopies(pod, tmp_path / "volume", source, 5.0)
        copies.begin(cluster.configurations[0], Ordinal(0))
        async with asyncio.timeout(5):
            await asyncio.gather(*copies.tasks)
        assert sorted(source.asked) == ["a.sst", "b.sst"]
        assert source.given_up == source.asked[:1]
        assert "partition 0 could not be copied: the snapshot is gone" in caplog.text
        assert pod.registry.copies == {}
        assert [*(tmp_path / "volume" / "incoming").iterdir()] == []


async def test_a_copy_without_room_takes_none_and_is_tried_again_ever_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It filled the volume, so that the pod's other partitions took no batch, once a second."""
    clock = SetClock()
    async with write_cluster(tmp_path, partitions=1, clock=clock) as cluster:
        await lead(cluster, 0, 2, learners=[1])
        source, pod = _Source(), cluster.pods[1].pod
        copies = LearnerCopies(pod, tmp_path / "1", source, 5.0)
        free = RESERVE_BYTES + 29  # The three files have 30 bytes.
        monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(total=2**30, free=free))

        async def tried(after_s: float) -> int:
            """The active asks for the copy; returns the snapshots that were made so far."""
            clock.now_s += after_s
            copies.begin(cluster.configurations[0], Ordinal(0))
            async with asyncio.timeout(5):
                await asyncio.gather(*copies.tasks)
            return source.snapshots

        found = [await tried(after_s) for after_s in (0.0, 0.9, 0.2, 1.8, 0.3, 3.8, 0.3)]
        assert found == [1, 1, 2, 2, 3, 3, 4]
        assert source.asked == [], "no byte is fetched"
        assert "free of 1 GiB, and 64 MiB are kept back; a copy needs" in caplog.text
        assert "it is tried again in 8 s" in caplog.text
        assert pod.room.look()
        report = pod.report().full_volume
        assert report is not None
        assert (report.copy_bytes, report.is_full) == (30, False)
        assert report.refused_copies == (0,)
        free = RESERVE_BYTES + 30
        assert await tried(8.1) == 5
        assert pod.room.look()
        assert pod.report().full_volume is None
        assert sorted(source.asked) == ["a.sst", "b.sst"]


class _SlowSource(_Source):
    """An active that sends 6 of the 10 bytes of each file, and then none."""

    def __init__(self) -> None:
        super().__init__()
        self.is_waited_for = asyncio.Event()

    async def download(
        self, url: str, body: bytes, take: Callable[[BufferedIOBase], None], timeout_s: float
    ) -> None:
        self.asked.append(decode_message(body, SnapshotPartRequest).file)
        take(BufferedReader(BytesIO(frame_of(BytesIO(b"abcdef"), 6))))
        if len(self.asked) % 2 == 0:
            self.is_waited_for.set()
        await asyncio.Event().wait()


@pytest.mark.parametrize("has_room", [False, True])
async def test_the_bytes_of_files_under_way_are_not_needed_a_second_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_room: bool
) -> None:
    """They counted as used and as needed: a copy beside another one was refused without need."""
    free = RESERVE_BYTES + 30
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(total=2**30, free=free))
    async with write_cluster(tmp_path, partitions=2) as cluster:
        source, pod = _SlowSource(), cluster.pods[1].pod
        copies = LearnerCopies(pod, tmp_path / "volume", source, 5.0)
        first, second = (configuration(number, 0, epoch=9, learners=[1]) for number in (0, 1))
        copies.begin(first, Ordinal(0))
        async with asyncio.timeout(5):
            await source.is_waited_for.wait()
        source.is_waited_for.clear()
        # The first copy lacks 4 + 4 + 10 bytes, the second one 30.
        free = RESERVE_BYTES + (48 if has_room else 47)
        copies.begin(second, Ordinal(0))
        (_, task) = copies.tasks
        async with asyncio.timeout(5):
            began = asyncio.create_task(source.is_waited_for.wait())
            await asyncio.wait([began, task], return_when=asyncio.FIRST_COMPLETED)
        assert (len(source.asked), task.done()) == ((4, False) if has_room else (2, True))
        for one in (began, *copies.tasks):
            one.cancel()
        await asyncio.gather(began, *copies.tasks, return_exceptions=True)
