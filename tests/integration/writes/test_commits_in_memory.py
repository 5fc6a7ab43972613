"""Waiting commits count as memory of requests, once for each run of a writer."""

import asyncio
from pathlib import Path

from qss_testing.faults.slow_sync import SlowSyncEngine
from qss_testing.pods.write_cluster import WriteCluster, write_cluster
from qss_testing.waiting import wait_until_async

POSITION = {"in": {str(partition): 10**9 for partition in range(1000)}}
COMMIT_BYTES = 11 * 17_000


def given_up(cluster: WriteCluster) -> float:
    """Requests whose clients closed the connection."""
    families = cluster.pods[0].pod.metrics.requests.collect()
    samples = [one for family in families for one in family.samples]
    return sum(one.value for one in samples if one.labels.get("status") == "499")


async def test_a_commit_keeps_its_memory_when_its_driver_goes_away(tmp_path: Path) -> None:
    engine = SlowSyncEngine()
    async with write_cluster(
        tmp_path, pods=1, partitions=1, open_engine=lambda _: engine
    ) as cluster:
        writer = cluster.writer()
        epoch = await writer.epoch()
        memory = cluster.pods[0].pod.request_memory
        engine.slow_down()
        commit = asyncio.ensure_future(writer.commit(epoch, 0, {}, position=POSITION))
        await wait_until_async(lambda: memory.used > COMMIT_BYTES)
        commit.cancel()
        await wait_until_async(lambda: given_up(cluster) == 1)
        assert memory.used > COMMIT_BYTES, "the commit still waits for the disk"
        engine.speed_up()
        await wait_until_async(lambda: memory.used == 0)
        assert (await writer.commit(epoch, 0, {}, position=POSITION)).json()["alreadyApplied"]


async def test_a_repeat_waits_for_the_first_commit_and_keeps_nothing(tmp_path: Path) -> None:
    engine = SlowSyncEngine()
    async with write_cluster(
        tmp_path, pods=1, partitions=1, open_engine=lambda _: engine
    ) as cluster:
        writer = cluster.writer()
        epoch = await writer.epoch()
        memory = cluster.pods[0].pod.request_memory
        engine.slow_down()

        async def commit() -> int:
            answer = await writer.commit(epoch, 0, {}, position=POSITION)
            answer.json()
            return answer.status

        asked = [asyncio.ensure_future(commit())]
        await wait_until_async(lambda: memory.used > COMMIT_BYTES)
        kept = memory.used
        memory.bytes_max = 7 * kept // 2
        asked += [asyncio.ensure_future(commit()) for _ in range(6)]
        other = asyncio.ensure_future(writer.commit(epoch, 0, {}, "other", position=POSITION))
        await wait_until_async(lambda: memory.used > 2 * kept * 0.9)
        engine.speed_up()
        assert await asyncio.gather(*asked) == [200] * 7
        (await other).problem(409, "BATCH_MISMATCH")
        await wait_until_async(lambda: memory.used == 0)
