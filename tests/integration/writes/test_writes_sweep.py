"""Pods drop the chunks of ended runs, and only when the coordinator confirms the end."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from qss_core.errors import StaleEpochError
from qss_core.model import Epoch, StoreSettings, WriterEpoch
from qss_core.wire.messages import ResolveRequest
from qss_store.runtime.settings import Settings
from qss_store.storage.commit_rows.commit_writer import APPLYING
from qss_store.storage.engine import META
from qss_store.transactions.coordinator import Coordinator
from qss_store.transactions.writers import ONE_OFF_RETENTION_MS
from qss_testing.fakes.virtual_time import SetClock
from qss_testing.faults.faulty_engine import Faults, failing
from qss_testing.pods.stores import open_rocksdb
from qss_testing.pods.write_cluster import Chunks, WriteCluster, Writer, decide, write_cluster
from qss_testing.waiting import turns_until, wait_until_async

TIMEOUT_S = 10.0
SETTINGS = Settings(finish_timeout_s=30.0, peer_timeout_s=30.0, open_batch_timeout_s=TIMEOUT_S)
A, B = {b"k": b"a"}, {b"k": b"b"}


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
async def cluster(tmp_path: Path, clock: SetClock) -> AsyncIterator[WriteCluster]:
    async with write_cluster(tmp_path, settings=SETTINGS, clock=clock) as cluster:
        yield cluster


async def sweep(cluster: WriteCluster) -> None:
    for held in cluster.pods.values():
        await held.maintenance.round()


async def stage(cluster: WriteCluster, epoch: int, batch: int, task: str = "t") -> None:
    for partition in (0, 1):
        writer = cluster.writer(partition)
        await writer.stage(epoch, batch, f"{epoch}.{task}.{partition}", {partition: A})


def coordinator(cluster: WriteCluster) -> Coordinator:
    held = cluster.replica(0).machine.coordinator
    assert held is not None
    return held


async def test_chunks_of_an_open_run_stay_however_old_they_are(
    cluster: WriteCluster, clock: SetClock
) -> None:
    writer = cluster.writer()
    epoch = await writer.epoch()
    await stage(cluster, epoch, 0)
    for _ in range(5):
        clock.now_s += TIMEOUT_S - 1
        (await writer.renew(epoch)).json()
        await sweep(cluster)
    assert len(cluster.staged()) == 2


async def test_chunks_of_an_older_run_are_dropped_when_a_younger_run_opens(
    cluster: WriteCluster,
) -> None:
    writer = cluster.writer()
    epoch = await writer.epoch()
    await stage(cluster, epoch, 0)
    other = cluster.writer(name="other")
    other_epoch = await other.epoch()
    await other.stage(other_epoch, 0, f"{other_epoch}.t.0", {0: B})
    assert len(cluster.staged()) == 3
    younger = await writer.epoch("run-2")
    await wait_until_async(lambda: len(cluster.staged()) == 1)
    await stage(cluster, younger, 0)
    # A younger query has another generation.
    await writer.epoch("run-3", "query-2", takeOver=True)
    await wait_until_async(lambda: len(cluster.staged()) == 1)


async def test_a_silent_run_is_closed_and_its_chunks_are_dropped(
    cluster: WriteCluster, clock: SetClock
) -> None:
    writer = cluster.writer()
    epoch = await writer.epoch()
    await stage(cluster, epoch, 0)
    clock.now_s += TIMEOUT_S
    await sweep(cluster)
    assert not coordinator(cluster).writer("job").closed
    clock.now_s += 1
    await sweep(cluster)
    assert coordinator(cluster).writer("job").closed
    assert cluster.staged() == set()
    (await writer.renew(epoch)).problem(409, "STALE_WRITER")
    (await writer.commit(epoch, 0, {})).problem(409, "STALE_WRITER")
    again = await writer.epoch(openId="again")
    (await writer.commit(again, 0, {})).json()


async def test_nothing_is_dropped_while_the_coordinator_is_away(
    cluster: WriteCluster, clock: SetClock
) -> None:
    epoch = await cluster.writer().epoch()
    younger = await cluster.writer().epoch("younger")
    await asyncio.gather(*cluster.pods[0].coordination.tasks)
    # Chunks of the older run come late.
    await stage(cluster, epoch, 0)
    await stage(cluster, younger, 0)
    clock.now_s += TIMEOUT_S + 1
    (await cluster.writer().renew(younger)).json()
    await cluster.stop_pod(0)
    await cluster.pods[1].maintenance.round()
    assert len(cluster.replica(1).machine.participant.staged.by_id) == 2
    await cluster.start_pod(0)
    (await cluster.writer().renew(younger)).json()
    await sweep(cluster)
    assert cluster.staged() == {(p, f"{younger}.t.{p}") for p in (0, 1)}


async def test_chunks_of_a_decision_are_not_dropped_but_committed(
    cluster: WriteCluster, clock: SetClock
) -> None:
    writer = cluster.writer()
    epoch = await writer.epoch()
    rows = {0: A, 1: A}
    chunks = await writer.stage(epoch, 0, f"{epoch}.t.0", {0: A})
    chunks |= await cluster.writer(1).stage(epoch, 0, f"{epoch}.t.0", {1: A})
    await decide(cluster, writer, 0, chunks)
    clock.now_s += TIMEOUT_S + 1
    await cluster.pods[1].maintenance.round()
    await wait_until_async(lambda: all(cluster.rows(p) == of_it for p, of_it in rows.items()))
    await wait_until_async(lambda: coordinator(cluster).unfinished is None)


async def test_a_restart_of_the_coordinator_restarts_the_timeouts_of_runs(
    cluster: WriteCluster, clock: SetClock
) -> None:
    epoch = await cluster.writer().epoch()
    await stage(cluster, epoch, 0)
    clock.now_s += TIMEOUT_S + 1
    await cluster.stop_pod(0)
    await cluster.start_pod(0)
    await sweep(cluster)
    assert len(cluster.staged()) == 2
    (await cluster.writer().commit(epoch, 0, {})).json()


async def test_a_run_that_renews_stays_open_and_a_silent_run_is_closed(
    cluster: WriteCluster, clock: SetClock
) -> None:
    kept, lost = cluster.writer(0, "kept"), cluster.writer(0, "lost")
    epoch = await kept.epoch()
    await lost.epoch()
    clock.now_s += TIMEOUT_S - 1
    (await kept.renew(epoch)).json()
    clock.now_s += 2
    await sweep(cluster)
    assert not coordinator(cluster).writer("kept").closed
    assert coordinator(cluster).writer("lost").closed
    assert set(cluster.pods[0].coordination.writers.last_heard) == {
        ("kept", epoch),
        ("lost", epoch + 1),
    }
    await sweep(cluster)
    assert set(cluster.pods[0].coordination.writers.last_heard) == {("kept", epoch)}


async def test_one_off_writers_are_forgotten_and_streaming_writers_are_not(
    cluster: WriteCluster, clock: SetClock
) -> None:
    streaming, one_off = cluster.writer(), cluster.writer(0, "batch-1")
    await streaming.epoch()
    epoch = await one_off.epoch(oneOff=True)
    (await one_off.commit(epoch, 0, {})).json()
    clock.now_s += ONE_OFF_RETENTION_MS / 1000 + 1
    (await one_off.renew(epoch)).json()
    await sweep(cluster)  # Its run was opened long ago, and still renews.
    assert set(coordinator(cluster).writers) == {"job", "batch-1"}
    clock.now_s += TIMEOUT_S + 1
    await sweep(cluster)  # The silent run is closed.
    clock.now_s += ONE_OFF_RETENTION_MS / 1000
    await sweep(cluster)
    assert set(coordinator(cluster).writers) == {"job", "batch-1"}
    clock.now_s += 1
    await sweep(cluster)
    assert set(coordinator(cluster).writers) == {"job"}
    (await one_off.commit(epoch, 0, {})).problem(404, "UNKNOWN_WRITER")


async def test_only_the_coordinator_of_the_newest_epoch_answers_what_to_drop(
    cluster: WriteCluster,
) -> None:
    epoch = await cluster.writer().epoch()
    request = ResolveRequest(
        store_id=cluster.definition.store_id,
        epoch=Epoch(2),
        writer="job",
        generation=1,
        batch=0,
        writer_epoch=WriterEpoch(epoch + 1),
    )
    with pytest.raises(StaleEpochError):
        cluster.pods[0].coordination.resolve(request)
    known = msgspec.structs.replace(request, epoch=Epoch(1))
    assert cluster.pods[0].coordination.resolve(known).verdict == "open"


# --- The changelog


async def write(writer: Writer, epoch: int, batch: int, rows: dict[bytes, bytes]) -> None:
    chunks = await writer.stage(epoch, batch, f"{epoch}.t{batch}.0", {0: rows})
    (await writer.commit(epoch, batch, chunks)).json()


async def test_the_changelog_is_cut_but_keeps_open_batches_over_restarts(
    tmp_path: Path, clock: SetClock
) -> None:
    limits = StoreSettings(changelog_retention_ms=5000)
    async with write_cluster(
        tmp_path, pods=1, partitions=1, clock=clock, limits=limits, open_engine=open_rocksdb()
    ) as cluster:
        writer, other = cluster.writer(), cluster.writer(0, "other")
        epoch = await writer.epoch()
        for batch in range(3):
            await write(writer, epoch, batch, A)
        open_epoch = await other.epoch()
        floor = cluster.replica(0).log.end
        staged = await other.stage(open_epoch, 0, f"{open_epoch}.open.0", {0: {b"open": b"1"}})
        for batch in range(3, 6):
            await write(writer, epoch, batch, B)
        clock.now_s += 6
        await cluster.pods[0].maintenance.round()
        # The log keeps the first Stage of the open batch.
        await wait_until_async(lambda: cluster.replica(0).log.start == floor)
        await cluster.stop_pod(0)
        await cluster.start_pod(0)
        log = cluster.replica(0).log
        assert (log.start, log.applied) == (floor, log.end)
        assert cluster.rows(0) == B
        # The open batch can still be committed, and a replay is recognized.
        (await other.commit(open_epoch, 0, staged)).json()
        assert cluster.rows(0) == {**B, b"open": b"1"}
        restarted = await writer.epoch("run-2")
        assert (await writer.commit(restarted, 5, {})).json()["alreadyApplied"]


async def test_a_changelog_that_was_cut_to_its_end_continues_after_a_restart(
    tmp_path: Path, clock: SetClock
) -> None:
    limits = StoreSettings(changelog_retention_ms=5000)
    async with write_cluster(
        tmp_path, pods=1, partitions=1, clock=clock, limits=limits, open_engine=open_rocksdb()
    ) as cluster:
        writer = cluster.writer()
        epoch = await writer.epoch()
        await write(writer, epoch, 0, A)
        await cluster.pods[0].coordination.driver.finish()
        clock.now_s += 6
        await cluster.pods[0].maintenance.round()
        end = cluster.replica(0).log.end
        await wait_until_async(lambda: cluster.replica(0).log.start == end)
        for _ in range(2):
            await cluster.stop_pod(0)
            await cluster.start_pod(0)
            assert (cluster.replica(0).log.start, cluster.replica(0).log.end) == (end, end)
            assert cluster.rows(0) == A
        restarted = await writer.epoch("run-2")
        assert (await writer.commit(restarted, 0, {}, "batch-0")).json()["alreadyApplied"]
        await write(writer, restarted, 1, B)
        assert cluster.rows(0) == B


@pytest.mark.parametrize("is_begun", [False, True])
async def test_a_restart_cuts_no_rows_that_an_unfinished_batch_still_reads(
    tmp_path: Path, *, is_begun: bool
) -> None:
    """The batch is decided before the restart, and some of its rows are written if `is_begun`."""
    faults = Faults(counts_syncs=False)
    async with write_cluster(
        tmp_path,
        pods=1,
        partitions=1,
        open_engine=failing(open_rocksdb(), faults),
        limits=StoreSettings(changelog_retention_bytes=0),
    ) as cluster:
        writer = cluster.writer()
        epoch = await writer.epoch()
        chunks: Chunks = {0: []}
        for part in range(4):
            rows = {b"%d-%d" % (part, key): b"v" * 1000 for key in range(1300)}
            chunks[0] += (await writer.stage(epoch, 0, f"{epoch}.t.{part}", {0: rows}))[0]
        if is_begun:
            commit = asyncio.ensure_future(writer.commit(epoch, 0, chunks))
            await turns_until(lambda: is_applying(cluster))
            faults.full_at, faults.full_times = faults.steps + 1, 1_000_000
            await wait_until_async(lambda: cluster.replica(0).failure)
            commit.cancel()
        else:
            await decide(cluster, writer, 0, chunks)
        assert is_applying(cluster) == is_begun
        await cluster.stop_pod(0)
        faults.full_times = 0
        start = asyncio.ensure_future(cluster.start_pod(0))
        rounds = 0
        while not start.done() or cluster.rows(0) == {}:
            for held in cluster.pods.values():
                await held.maintenance.round()
                for replica in held.pod.registry.replicas.values():
                    assert replica.failure is None
                    # A round leaves out a replica that shows no rows yet.
                    replica.apply_loop.cut_soon()
                rounds += is_applying(cluster)
            await asyncio.sleep(0)
        assert rounds > 1 or is_begun, "a begun batch ends before its replica is reached"
        assert len(cluster.rows(0)) == 4 * 1300
        # The log is cut after the commit.
        replica = cluster.replica(0)
        committed = replica.log.applied
        await cluster.pods[0].maintenance.round()
        await wait_until_async(lambda: replica.log.start >= committed)


def is_applying(cluster: WriteCluster) -> bool:
    """Whether some rows of a commit are written, and others are not."""
    replicas = cluster.pods[0].pod.registry.replicas.values()
    return any(one.engine.get(META, APPLYING) is not None for one in replicas)
