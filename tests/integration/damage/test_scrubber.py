"""Rows that nobody reads: damage to them is found, and the replica is made anew."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from qss_core.errors import CorruptionError, StoreError
from qss_core.model import Ordinal, PartitionId, StoreSettings
from qss_store.replicas.apply.replica_health import ReplicaHealth
from qss_store.replicas.peers import follower_progress
from qss_store.replicas.replica import Replica
from qss_store.replicas.volume.scrubber import Scrubber
from qss_store.runtime.settings import Settings
from qss_testing.fakes.virtual_time import ForwardLoop, SetClock
from qss_testing.memory_engine import MemoryEngine
from qss_testing.pods.one_replica import started_replica
from qss_testing.pods.stores import configuration, open_rocksdb
from qss_testing.pods.write_cluster import WriteCluster, replica_of, write_cluster
from qss_testing.waiting import wait_until_async

KEYS = 2000
HOUR_S = 3600.0
P0 = PartitionId(0)


async def filled(cluster: WriteCluster) -> None:
    """Writes many rows, and has them in files."""
    writer = cluster.writer(0)
    epoch = await writer.epoch()
    rows = {0: {f"k{number:05}".encode(): bytes(100) for number in range(KEYS)}}
    chunks = await writer.stage(epoch, 0, f"{epoch}.t0.0", rows)
    (await writer.commit(epoch, 0, chunks)).json()
    cluster.pods[0].pod.registry.replicas[P0].engine.flush()


def damage(volume: Path) -> tuple[Path, bytes]:
    """Changes a byte in the first block of the largest table of a partition.

    Returns the table's path, and its bytes before.
    """
    table = max((volume / "partitions" / "0").glob("*.sst"), key=lambda one: one.stat().st_size)
    whole = table.read_bytes()
    spoilt = bytearray(whole)
    spoilt[100] ^= 0xFF
    _write_over(table, bytes(spoilt))
    return table, whole


def _write_over(table: Path, data: bytes) -> None:
    """Keeps the file's inode, which the database has open."""
    with table.open("r+b") as file:
        file.write(data)


def scrubber(cluster: WriteCluster, rest_s: float = 0.0, clock: SetClock | None = None) -> Scrubber:
    """A scrubber of pod 0; by default a pass is due at any time."""
    registry = cluster.pods[0].pod.registry
    settings = replace(
        cluster.pods[0].services.settings, scrub_bytes_per_s=1 << 40, scrub_rest_s=rest_s
    )
    compare = cluster.pods[0].services.row_comparison.compare
    return Scrubber(
        registry.replicas, registry.found_damage, compare, settings, clock or SetClock()
    )


@asynccontextmanager
async def one_pod(tmp_path: Path) -> AsyncIterator[WriteCluster]:
    """A pod with the only replica of its partition, which has rows in files."""
    async with write_cluster(
        tmp_path, pods=1, partitions=1, limits=StoreSettings(), open_engine=open_rocksdb()
    ) as cluster:
        await cluster.until_led()
        await filled(cluster)
        yield cluster


def health(cluster: WriteCluster) -> ReplicaHealth:
    return cluster.pods[0].pod.registry.replicas[P0].health


@pytest.mark.parametrize("standbys", [[], [1]], ids=["alone", "with a standby"])
async def test_damage_that_nobody_reads_is_found_and_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, standbys: list[int]
) -> None:
    async with write_cluster(
        tmp_path, pods=2, partitions=1, limits=StoreSettings(), open_engine=open_rocksdb()
    ) as cluster:
        await cluster.assign([configuration(0, 0, standbys=standbys, epoch=2)])
        await cluster.until_led()
        await filled(cluster)
        await scrubber(cluster).round()
        assert "is damaged" not in caplog.text
        table, whole = damage(tmp_path / "0")
        await scrubber(cluster).round()
        assert "partition 0 is damaged" in caplog.text
        (report,) = cluster.pods[0].pod.report().replicas
        assert report.has_damage
        assert report.state == "serving", "it goes on until another one takes over"
        _write_over(table, whole)
        await scrubber(cluster).round()
        (report,) = cluster.pods[0].pod.report().replicas
        assert not report.has_damage, "a whole pass has met none"


async def test_known_damage_is_kept_and_forgotten_with_a_pass_that_meets_none(
    tmp_path: Path,
) -> None:
    async with one_pod(tmp_path) as cluster:
        cluster.pods[0].pod.registry.found_damage(P0, CorruptionError("a block"))
        await cluster.stop_pod(0)
        await cluster.start_pod(0)
        kept = health(cluster).damage
        assert kept is not None
        assert kept.message == "a block"
        await scrubber(cluster).round()
        await cluster.stop_pod(0)
        await cluster.start_pod(0)
        assert health(cluster).damage is None


async def test_damage_that_is_met_again_during_a_pass_keeps_its_mark(tmp_path: Path) -> None:
    """A reader may meet it in a block that the pass has read before: it says nothing of it."""
    async with one_pod(tmp_path) as cluster:
        registry = cluster.pods[0].pod.registry
        registry.found_damage(P0, CorruptionError("a block"))
        reading = asyncio.create_task(scrubber(cluster).round())
        await asyncio.sleep(0)  # The pass has read its first rows.
        registry.found_damage(P0, CorruptionError("a block"))
        assert not reading.done()
        await reading
        assert health(cluster).damage is not None
        await scrubber(cluster).round()
        assert health(cluster).damage is None


async def test_a_pass_is_due_a_rest_after_the_last_one_also_after_a_restart(tmp_path: Path) -> None:
    clock = SetClock()
    async with one_pod(tmp_path) as cluster:
        await scrubber(cluster, HOUR_S, clock).round()
        registry = cluster.pods[0].pod.registry
        registry.found_damage(P0, CorruptionError("a block"))
        clock.now_s += HOUR_S / 2
        await cluster.stop_pod(0)
        await cluster.start_pod(0)
        await scrubber(cluster, HOUR_S, clock).round()
        assert health(cluster).damage is not None, "the last pass ended half an hour ago"
        clock.now_s += HOUR_S / 2
        await scrubber(cluster, HOUR_S, clock).round()
        assert health(cluster).damage is None


async def test_a_pass_that_ended_in_the_future_does_not_count(tmp_path: Path) -> None:
    """The clock was wrong then, or is now."""
    clock = SetClock()
    async with one_pod(tmp_path) as cluster:
        await scrubber(cluster, HOUR_S, clock).round()
        clock.now_s -= 1
        cluster.pods[0].pod.registry.found_damage(P0, CorruptionError("a block"))
        await scrubber(cluster, HOUR_S, clock).round()
        assert health(cluster).damage is None


async def test_nobody_has_read_the_rows_of_a_new_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A learner that answers its active while it is copied refuses the copy.
    monkeypatch.setattr(follower_progress, "_HEARTBEAT_S_MAX", 3600.0)
    async with write_cluster(
        tmp_path, pods=2, partitions=1, limits=StoreSettings(), open_engine=open_rocksdb()
    ) as cluster:
        await cluster.until_led()
        await filled(cluster)
        await scrubber(cluster).round()
        await cluster.stop_pod(0)
        await cluster.start_pod(0)
        assert health(cluster).last_read_ms is not None, "it is kept, and copied with the rows"
        await cluster.assign([configuration(0, 0, learners=[1], epoch=2)])
        await cluster.until_led()
        copies, before = cluster.pods[1].services.copies, replica_of(cluster, 1)
        while replica_of(cluster, 1) is before:  # An entry that comes meanwhile ends a copy.
            copies.begin(replica_of(cluster, 0).log.configuration, Ordinal(0))
            await asyncio.gather(*copies.tasks)
        await cluster.stop_pod(1)
        await cluster.start_pod(1)
        assert replica_of(cluster, 1).health.last_read_ms is None
        assert health(cluster).last_read_ms is not None


def test_a_pod_that_has_just_started_reads_nothing_yet() -> None:
    def found(_: PartitionId, error: CorruptionError, __: Replica) -> StoreError:
        return error

    async def compare(_: Replica) -> bool:
        return True

    async def story() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ForwardLoop)
        async with started_replica(MemoryEngine()) as replica:
            scrubber = Scrubber({P0: replica}, found, compare, Settings(), SetClock())
            reading = asyncio.create_task(scrubber.run())
            await asyncio.sleep(0)
            for seconds in (300, 290):
                await loop.skip(seconds)
            assert replica.health.last_read_ms is None
            await loop.skip(11)
            await wait_until_async(lambda: replica.health.last_read_ms is not None)
            reading.cancel()

    with asyncio.Runner(loop_factory=ForwardLoop) as runner:
        runner.run(story())
