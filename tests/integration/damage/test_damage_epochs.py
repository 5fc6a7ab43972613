"""Partition 0 holds a state before the opening of a run: no writer epoch is given twice."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from qss_testing.faults.rolled_back import PARTITIONS, cluster_of, values, write
from qss_testing.pods.write_cluster import Chunks, WriteCluster


@asynccontextmanager
async def behind_an_open(directory: Path) -> AsyncIterator[tuple[WriteCluster, int]]:
    """A store whose partition 0 forgot the opening of a run, and the writer epoch of that run."""
    async with cluster_of(directory) as cluster:
        (await write(cluster, 0, b"1")).json()
        await cluster.pods[0].coordination.driver.finish()
        await cluster.stop_pod(0)
        shutil.copytree(directory / "0", directory / "backup")
        await cluster.start_pod(0)
        forgotten = await cluster.writer().epoch("run-2")
        yield cluster, forgotten


async def go_back(cluster: WriteCluster, directory: Path) -> None:
    await cluster.stop_pod(0)
    shutil.rmtree(directory / "0")
    (directory / "backup").rename(directory / "0")
    await cluster.start_pod(0)


async def stage(cluster: WriteCluster, epoch: int, value: bytes) -> Chunks:
    chunks: Chunks = {}
    for number in range(PARTITIONS):
        id_ = f"{epoch}.t{number}.0"
        chunks |= await cluster.writer(number).stage(epoch, 1, id_, {number: {b"k": value}})
    return chunks


async def test_no_epoch_is_allotted_twice_where_its_run_has_staged(tmp_path: Path) -> None:
    async with behind_an_open(tmp_path) as (cluster, forgotten):
        await go_back(cluster, tmp_path)
        chunks = await stage(cluster, forgotten, b"fenced")
        young = await cluster.writer().epoch("run-3")
        assert young > forgotten
        (await cluster.writer().commit(forgotten, 1, chunks)).problem(409, "STALE_WRITER")
        (await cluster.writer().commit(young, 1, await stage(cluster, young, b"2"))).json()
        assert values(cluster) == [b"2"] * 3
        # The log has the epochs that were given: after another start none of them is given again.
        await cluster.stop_pod(0)
        await cluster.start_pod(0)
        assert await cluster.writer().epoch("run-4") > young


async def test_the_other_pods_remember_epochs_that_staged_nothing(tmp_path: Path) -> None:
    async with behind_an_open(tmp_path) as (cluster, forgotten):
        await cluster.pods[0].comparison.round()
        await go_back(cluster, tmp_path)
        young = await cluster.writer().epoch("run-3")
        assert young > forgotten
        (await cluster.writer().commit(forgotten, 1, {})).problem(409, "STALE_WRITER")


async def test_the_run_that_was_fenced_by_the_forgotten_one_decides_nothing(tmp_path: Path) -> None:
    async with behind_an_open(tmp_path) as (cluster, forgotten):
        chunks = await stage(cluster, forgotten, b"2")
        await go_back(cluster, tmp_path)
        # The opening is repeated, so the epoch is the same.
        fenced = await cluster.writer().epoch("run-1")
        assert fenced < forgotten
        refused = await cluster.writer().commit(fenced, 1, {})
        assert "younger run" in refused.problem(409, "STALE_WRITER")["detail"]
        coordinator = cluster.replica(0).machine.coordinator
        assert coordinator is not None
        assert coordinator.unfinished is None
        (await cluster.writer().commit(forgotten, 1, chunks)).problem(409, "STALE_WRITER")
        young = await cluster.writer().epoch("run-3")
        (await cluster.writer().commit(young, 1, await stage(cluster, young, b"3"))).json()
        assert values(cluster) == [b"3"] * 3


async def test_a_run_opens_without_the_word_of_a_pod_that_is_away(tmp_path: Path) -> None:
    async with behind_an_open(tmp_path) as (cluster, epoch):
        await cluster.stop_pod(2)
        assert await cluster.writer().epoch("run-3") > epoch
