"""A standby answers reads once it has applied what was acknowledged before it joined or started."""

import asyncio
import shutil
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from qss_core.errors import NotReadyError
from qss_core.model import Ordinal, PartitionId
from qss_core.queries.parameters import ReadOptions
from qss_store.reads.codec import codec_of
from qss_store.reads.request import ReadRequest
from qss_store.reads.routing.admission import read
from qss_store.replicas.replica import Replica
from qss_store.storage.rocksdb.database import RocksDbEngine
from qss_store.storage.rocksdb.memory_budget import MemoryBudget
from qss_testing.pods.stores import configuration
from qss_testing.pods.write_cluster import (
    Rows,
    WriteCluster,
    lead,
    replica_of,
    replicated_in,
    rows_of,
    write,
)
from qss_testing.waiting import wait_until_async

ROWS = {0: {b"a": b"1", b"b": b"2"}}
_LATER = {0: {b"c": b"3"}}
_SHORT_LEASE_MS = 1500  # For tests that wait until a lease has run out.


class HeldEngine(RocksDbEngine):
    """RocksDB whose copies wait; a copy waits between two commits, so no commit is applied."""

    def __init__(self, path: Path, budget: MemoryBudget) -> None:
        super().__init__(path, budget)
        self.has_begun, self.may_end = threading.Event(), threading.Event()

    def checkpoint(self, path: Path) -> None:
        self.has_begun.set()
        self.may_end.wait()
        super().checkpoint(path)


@asynccontextmanager
async def applying_nothing(replica: Replica, copy: Path) -> AsyncIterator[None]:
    """The replica takes entries meanwhile, and applies none of them."""
    engine = replica.engine
    assert isinstance(engine, HeldEngine)
    copying = asyncio.create_task(replica.checkpoints.make(copy, Ordinal(1)))
    await wait_until_async(engine.has_begun.is_set)
    try:
        yield
    finally:
        engine.may_end.set()
        await copying


@asynccontextmanager
async def joined_behind(
    cluster: WriteCluster, copy: Path, *, standbys: Sequence[int] = ()
) -> AsyncIterator[None]:
    """Pod 1 is in sync in epoch 4, holds a committed batch, and applies nothing meanwhile."""
    writer, report = cluster.writer(0), cluster.pods[0].pod.report
    epoch = await writer.epoch()
    await lead(cluster, 0, 3, standbys=[*standbys], learners=[1])
    async with applying_nothing(replica_of(cluster, 1), copy):
        await write(writer, epoch, 0, ROWS)
        await wait_until_async(lambda: report().replicas[0].caught_up == (1,))
        await lead(cluster, 0, 4, standbys=[1, *standbys])
        yield


def read_on(cluster: WriteCluster, pod: int) -> Rows:
    """The rows that a reader of one pod gets."""
    request = ReadRequest[object](codec_of(cluster.definition), None, ReadOptions())
    reading, _ = read(cluster.pods[pod].pod, PartitionId(0), request, lambda _: None)
    return {key: value[8:] for key, value in reading.view.rows.scan()}


def held_cluster(directory: Path, **limits: int) -> AbstractAsyncContextManager[WriteCluster]:
    budget = MemoryBudget.of(cache_bytes=8 * 1024 * 1024, write_buffer_bytes=16 * 1024 * 1024)
    return replicated_in(directory, lambda path: HeldEngine(path, budget), **limits)


async def test_a_standby_that_has_joined_and_not_applied_its_log_answers_no_read(
    tmp_path: Path,
) -> None:
    """A reader would get "not found" for a row that was committed minutes before."""
    async with held_cluster(tmp_path) as cluster:
        async with joined_behind(cluster, tmp_path / "copy"):
            with pytest.raises(NotReadyError, match="has yet to apply entries"):
                read_on(cluster, 1)
            (held,) = cluster.pods[1].pod.report().replicas
            assert (held.state, held.answers) == ("opening", False)
            assert read_on(cluster, 0) == ROWS[0]
        await wait_until_async(lambda: not replica_of(cluster, 1).lacks_rows)
        assert read_on(cluster, 1) == ROWS[0]


async def test_a_standby_that_is_a_batch_behind_answers_reads(tmp_path: Path) -> None:
    async with held_cluster(tmp_path) as cluster:
        writer = cluster.writer(0)
        epoch = await writer.epoch()
        await write(writer, epoch, 0, ROWS)
        await wait_until_async(lambda: rows_of(replica_of(cluster, 1)) == ROWS[0])
        async with applying_nothing(replica_of(cluster, 1), tmp_path / "copy"):
            await write(writer, epoch, 1, _LATER)
            assert read_on(cluster, 1) == ROWS[0]


async def test_a_new_active_that_has_not_applied_the_log_it_joined_with_answers_no_read(
    tmp_path: Path,
) -> None:
    async with held_cluster(tmp_path, lease_ms=_SHORT_LEASE_MS) as cluster:
        async with joined_behind(cluster, tmp_path / "copy"):
            await cluster.stop_pod(0)
            await cluster.assign([configuration(0, 1, epoch=5)])
            with pytest.raises(NotReadyError):
                read_on(cluster, 1)
        await cluster.until_led()
        assert read_on(cluster, 1) == ROWS[0]


async def test_a_standby_that_starts_again_answers_once_its_active_has_compared_its_log(
    tmp_path: Path,
) -> None:
    """It may have left the in-sync set while its pod was away, and not know it yet."""
    async with held_cluster(tmp_path, lease_ms=_SHORT_LEASE_MS) as cluster:
        writer = cluster.writer(0)
        await write(writer, await writer.epoch(), 0, ROWS)
        await wait_until_async(lambda: rows_of(replica_of(cluster, 1)) == ROWS[0])
        await cluster.stop_pod(1)
        await cluster.stop_pod(0)
        await cluster.start_pod(1)
        assert replica_of(cluster, 1).lacks_rows
        await wait_until_async(lambda: replica_of(cluster, 1).following.misses_active)
        with pytest.raises(NotReadyError):
            read_on(cluster, 1)
        # Its active is away, and the operator says that it is in sync: nobody has newer rows.
        await cluster.pods[1].pod.assign(cluster.assignment)
        assert read_on(cluster, 1) == ROWS[0]
        await cluster.stop_pod(1)
        await cluster.start_pod(0)
        await cluster.start_pod(1)
        await cluster.assign([configuration(0, 0, standbys=[1], epoch=3)])
        await cluster.until_led()
        await wait_until_async(lambda: not replica_of(cluster, 1).lacks_rows)
        assert not replica_of(cluster, 1).following.misses_active
        assert read_on(cluster, 1) == ROWS[0]


async def test_a_standby_that_starts_again_before_it_has_applied_its_log_is_behind_still(
    tmp_path: Path,
) -> None:
    """Its active is away, too: old rows are worse than an error that says so."""
    async with held_cluster(tmp_path, lease_ms=_SHORT_LEASE_MS) as cluster:
        async with joined_behind(cluster, tmp_path / "copy"):
            await cluster.stop_pod(0)
            shutil.copytree(tmp_path / "1", tmp_path / "killed")
        await cluster.stop_pod(1)
        shutil.rmtree(tmp_path / "1")
        (tmp_path / "killed").rename(tmp_path / "1")
        await cluster.start_pod(1)
        await wait_until_async(lambda: replica_of(cluster, 1).following.misses_active)
        with pytest.raises(NotReadyError):
            read_on(cluster, 1)
        await cluster.start_pod(0)
        await cluster.assign([configuration(0, 0, standbys=[1], epoch=5)])
        await wait_until_async(lambda: not replica_of(cluster, 1).lacks_rows)
        assert read_on(cluster, 1) == ROWS[0]


async def test_a_standby_whose_volume_is_another_one_answers_no_read_before_it_has_the_rows(
    tmp_path: Path,
) -> None:
    async with held_cluster(tmp_path, lease_ms=_SHORT_LEASE_MS) as cluster:
        writer = cluster.writer(0)
        await write(writer, await writer.epoch(), 0, ROWS)
        await cluster.stop_pod(1)
        shutil.rmtree(tmp_path / "1")
        await cluster.start_pod(1)
        cluster.configurations = [configuration(0, 0, standbys=[1], epoch=3)]
        await cluster.pods[1].pod.assign(cluster.assignment)
        standby = replica_of(cluster, 1)
        async with applying_nothing(standby, tmp_path / "copy"):
            await cluster.assign(cluster.configurations)
            await wait_until_async(lambda: standby.log.end == replica_of(cluster, 0).log.end > 0)
            with pytest.raises(NotReadyError):
                read_on(cluster, 1)
        await wait_until_async(lambda: not standby.lacks_rows)
        assert read_on(cluster, 1) == ROWS[0]


async def test_a_standby_that_was_removed_while_its_pod_was_away_answers_no_read(
    tmp_path: Path,
) -> None:
    """Power is lost, and its pod is the first one that is up: nobody can tell it yet."""
    async with held_cluster(tmp_path, lease_ms=_SHORT_LEASE_MS) as cluster:
        writer = cluster.writer(0)
        epoch = await writer.epoch()
        await write(writer, epoch, 0, ROWS)
        await wait_until_async(lambda: rows_of(replica_of(cluster, 1)) == ROWS[0])
        await cluster.stop_pod(1)
        await lead(cluster, 0, 3, learners=[1])
        await write(writer, epoch, 1, _LATER)
        await cluster.stop_pod(0)
        await cluster.start_pod(1)
        await wait_until_async(lambda: replica_of(cluster, 1).following.misses_active)
        with pytest.raises(NotReadyError):
            read_on(cluster, 1)


async def test_an_active_that_was_behind_and_starts_again_answers_no_read_before_its_barrier(
    tmp_path: Path,
) -> None:
    async with held_cluster(tmp_path, pods=3) as cluster:
        async with joined_behind(cluster, tmp_path / "copy", standbys=[2]):
            await cluster.stop_pod(0)
            await cluster.assign([configuration(0, 1, standbys=[2], learners=[0], epoch=5)])
            with pytest.raises(NotReadyError):
                read_on(cluster, 1)
            shutil.copytree(tmp_path / "1", tmp_path / "killed")
        await cluster.stop_pod(1)
        shutil.rmtree(tmp_path / "1")
        (tmp_path / "killed").rename(tmp_path / "1")
        await cluster.start_pod(1)
        assert cluster.pods[1].pod.report().replicas[0].asks_for_epoch
        with pytest.raises(NotReadyError):
            read_on(cluster, 1)


async def test_an_active_that_has_applied_everything_answers_while_a_standby_is_away(
    tmp_path: Path,
) -> None:
    """It was behind when it joined, and has led an epoch since."""
    async with held_cluster(tmp_path, lease_ms=_SHORT_LEASE_MS) as cluster:
        async with joined_behind(cluster, tmp_path / "copy"):
            await cluster.stop_pod(0)
            await cluster.assign([configuration(0, 1, learners=[0], epoch=5)])
        await cluster.until_led()
        assert read_on(cluster, 1) == ROWS[0]
        await cluster.assign([configuration(0, 1, standbys=[0], epoch=6)])
        with pytest.raises(NotReadyError):
            replica_of(cluster, 1).acting.check()
        assert read_on(cluster, 1) == ROWS[0]
