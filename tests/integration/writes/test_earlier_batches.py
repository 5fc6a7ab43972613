"""The batches in the log of partition 0 are read in small turns, for a second, and once."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec.structs import replace

from qss_core.model import Epoch, PartitionId
from qss_store.http.status.earlier_batches import EarlierBatches
from qss_testing.fakes.virtual_time import SetClock
from qss_testing.pods.write_cluster import WriteCluster, write_cluster
from qss_testing.waiting import wait_until_async

BATCHES = 30
ALL = [*range(1, BATCHES + 1)]


@dataclass
class TickingClock(SetClock):
    """A clock on which each look at it takes time, as if entries were large."""

    tick_s: float = 0.0

    def monotonic_s(self) -> float:
        self.now_s += self.tick_s
        return self.now_s


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[WriteCluster]:
    """One pod, the coordinator, which has started again after some batches."""
    async with write_cluster(tmp_path, pods=1, partitions=1, clock=TickingClock()) as cluster:
        writer = cluster.writer()
        epoch = await writer.epoch()
        for batch in range(BATCHES):
            chunks = await writer.stage(epoch, batch, f"{epoch}.1.{batch}", {0: {b"k": b"v"}})
            assert (await writer.commit(epoch, batch, chunks)).status == 200

        def are_complete() -> bool:
            coordinator = cluster.replica(0).machine.coordinator
            return coordinator is not None and coordinator.completed == BATCHES

        await wait_until_async(are_complete)
        yield cluster


def clock_of(cluster: WriteCluster) -> TickingClock:
    assert isinstance(cluster.clock, TickingClock)
    return cluster.clock


async def told(earlier: EarlierBatches, after: int = 0) -> list[int]:
    return [one.sequence for one in await earlier.after(after, ())]


async def test_large_entries_are_read_one_in_a_turn(cluster: WriteCluster) -> None:
    earlier = EarlierBatches(cluster.pods[0].pod)
    clock_of(cluster).tick_s = 0.0011
    reading = asyncio.ensure_future(told(earlier))
    turns = 0
    while not reading.done():
        await asyncio.sleep(0)
        turns += 1
    assert await reading == ALL
    assert turns >= 2 * BATCHES, "each batch has a decision and a commit"


async def test_reading_ends_after_a_second_and_is_not_repeated(cluster: WriteCluster) -> None:
    earlier, clock = EarlierBatches(cluster.pods[0].pod), clock_of(cluster)
    clock.tick_s = 0.01
    found = await told(earlier)
    assert found
    assert found == ALL[-len(found) :] != ALL
    began_s = clock.now_s
    assert await told(earlier) == found
    assert clock.now_s == began_s
    # Another coordinator may have been there meanwhile.
    clock.tick_s = 0.0
    await cluster.assign([replace(cluster.configurations[0], epoch=Epoch(2))])
    assert await told(earlier) == ALL


async def test_callers_that_ask_for_more_and_more_read_the_log_once(cluster: WriteCluster) -> None:
    earlier, clock = EarlierBatches(cluster.pods[0].pod), clock_of(cluster)
    assert await told(earlier, BATCHES - 1) == [BATCHES]
    clock.tick_s = 0.001
    began_s = clock.now_s
    for after in reversed(range(BATCHES)):
        assert await told(earlier, after) == ALL[after:]
    assert clock.now_s == began_s


async def test_after_a_replica_went_away_meanwhile_the_log_is_read_again(
    cluster: WriteCluster,
) -> None:
    pod = cluster.pods[0].pod
    earlier = EarlierBatches(pod)
    clock_of(cluster).tick_s = 0.0011
    reading = asyncio.ensure_future(told(earlier))
    await asyncio.sleep(0)
    held = pod.registry.replicas.pop(PartitionId(0))
    assert await reading == []
    pod.registry.replicas[PartitionId(0)] = held
    assert await told(earlier) == ALL
