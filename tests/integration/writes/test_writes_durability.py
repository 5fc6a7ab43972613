"""Acknowledged entries are durable, and entries that a commit still reads are not cut."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random  # noqa: TID251 a network without faults rolls no dice.

import msgspec
import pyarrow as pa
import pytest

from qss_client.chunks.chunk import Slice, encode_slice
from qss_core.codes.error_classes import error_from_wire
from qss_core.errors import ChunkMismatchError, DiskFullError
from qss_core.model import Epoch, PartitionId, StoreSettings, WriterEpoch
from qss_core.wire.messages import (
    CommitAnswer,
    CommitPartitionsRequest,
    CommitRequest,
    Decision,
    OpenWriterRequest,
    WriterOpened,
)
from qss_store.replication.entries import decode_entry
from qss_store.storage.commit_rows.commit_writer import APPLYING
from qss_store.storage.engine import CHANGELOG, META, PAYLOAD, Batch, Engine
from qss_store.transactions.commands import Abort, Barrier, Stage, command_of
from qss_testing.fakes.virtual_time import SetClock
from qss_testing.faults.faulty_cluster import FaultyNetwork, Services, make_assignment
from qss_testing.faults.faulty_engine import Faults, FaultyEngine
from qss_testing.faults.slow_sync import SlowSyncEngine
from qss_testing.pods.stores import open_memory, open_rocksdb
from qss_testing.pods.write_cluster import write_cluster
from qss_testing.waiting import turns_until, wait_until_async

MIB = 1024 * 1024
ASSIGNMENT = make_assignment(1, pods=1)


@asynccontextmanager
async def slow_pod(directory: Path) -> AsyncIterator[tuple[Services, SlowSyncEngine]]:
    engine = SlowSyncEngine()
    services = Services(0, directory, lambda _: engine, FaultyNetwork(Random(0), 0.0))
    await services.pod.start()
    await services.pod.assign(ASSIGNMENT)
    try:
        yield services, engine
    finally:
        engine.speed_up()
        await services.crash()


async def opened_writer(services: Services) -> WriterOpened:
    request = OpenWriterRequest(query_id="q", run_id="r", open_id="o")
    return await services.coordination.open("w", request)


def slice_of(key: bytes, value: bytes = b"1") -> Slice:
    return encode_slice(0, pa.table({"key": pa.array([key]), "value": pa.array([value])}))


ROWS_OF_0 = {PartitionId(0): slice_of(b"k")}


def stage_of(opened: WriterOpened, chunk: int) -> Stage:
    return Stage(
        writer="w",
        generation=1,
        batch=0,
        writer_epoch=opened.writer_epoch,
        chunk=f"{opened.writer_epoch}.t{chunk}.0",
    )


# --- The log is cut


async def test_a_round_of_maintenance_cuts_no_rows_that_a_commit_still_reads(
    tmp_path: Path,
) -> None:
    limits = StoreSettings(changelog_retention_bytes=MIB)
    rows = {b"%d" % number: b"v" * 1000 for number in range(1300)}
    async with write_cluster(
        tmp_path, pods=1, partitions=1, open_engine=open_rocksdb(), limits=limits
    ) as cluster:
        writer = cluster.writer()
        epoch = await writer.epoch()
        chunks: dict[int, list[object]] = {0: []}
        for number in range(4):  # Each chunk is too large to stay in memory for its commit.
            some = {b"%d-%s" % (number, key): value for key, value in rows.items()}
            staged = await writer.stage(epoch, 0, f"{epoch}.t.{number}", {0: some})
            chunks[0] += staged[0]
        commit = asyncio.ensure_future(writer.commit(epoch, 0, chunks))  # type: ignore[arg-type]
        replica = cluster.replica(0)
        await turns_until(lambda: replica.engine.get(META, APPLYING) is not None)
        assert replica.view is not None
        assert replica.view.sequence == 0, "the commit's rows are still being written"
        participant = replica.machine.participant
        assert (participant.sequence, len(participant.staged.by_id)) == (0, 4), (
            "the rows come first"
        )
        await cluster.pods[0].maintenance.round()
        (await commit).json()
        assert len(cluster.rows(0)) == 4 * len(rows)
        await wait_until_async(lambda: replica.log.start > 0)  # The log is cut after the commit.
        await cluster.stop_pod(0)
        await cluster.start_pod(0)
        assert len(cluster.rows(0)) == 4 * len(rows)


async def test_a_log_of_many_small_entries_is_cut_to_its_retention(tmp_path: Path) -> None:
    clock = SetClock()
    services = Services(0, tmp_path, open_memory(), FaultyNetwork(Random(0), 0.0), clock=clock)
    await services.pod.start()
    short = StoreSettings(changelog_retention_ms=1000)
    await services.pod.assign(make_assignment(1, pods=1, settings=short))
    replica = services.pod.registry.local(0)
    await append_aborts(services, 3000)
    clock.now_s += 30.0
    kept = replica.log.end
    await append_aborts(services, 10)
    await services.maintenance.round()
    await wait_until_async(lambda: replica.log.start == kept)
    await services.crash()


async def test_an_edited_retention_reaches_a_replica_that_runs(tmp_path: Path) -> None:
    services = Services(0, tmp_path, open_memory(), FaultyNetwork(Random(0), 0.0))
    await services.pod.start()
    await services.pod.assign(ASSIGNMENT)
    replica = services.pod.registry.local(0)
    await append_aborts(services, 10)
    await services.maintenance.round()
    assert replica.log.start == 0
    nothing = StoreSettings(changelog_retention_bytes=0)
    await services.pod.assign(make_assignment(1, pods=1, settings=nothing))
    await services.maintenance.round()
    await wait_until_async(lambda: replica.log.start == 10)
    await services.crash()


async def append_aborts(services: Services, count: int) -> None:
    replica = services.pod.registry.local(0)
    abort = Abort(writer="w", generation=1, batch=0, writer_epoch=WriterEpoch(0))
    await asyncio.gather(*(replica.append(abort) for _ in range(count)))


# --- A new epoch


async def test_an_entry_that_no_sync_covered_is_not_acknowledged_by_a_new_epoch(
    tmp_path: Path,
) -> None:
    async with slow_pod(tmp_path) as (services, engine):
        opened = await opened_writer(services)
        engine.slow_down()
        first = asyncio.ensure_future(
            services.batches.stage(stage_of(opened, 1), [slice_of(b"k1")])
        )
        await wait_until_async(lambda: engine.begun == 1)
        second = asyncio.ensure_future(
            services.batches.stage(stage_of(opened, 2), [slice_of(b"k2")])
        )
        await asyncio.sleep(0)  # It is logged during the sync of the first entry.
        assert services.pod.registry.local(0).log.end == 3
        newer = tuple(msgspec.structs.replace(one, epoch=Epoch(2)) for one in ASSIGNMENT.partitions)
        await services.pod.assign(msgspec.structs.replace(ASSIGNMENT, partitions=newer))
        engine.let_one_end()
        await wait_until_async(lambda: engine.begun == 2 and first.done())
        assert not second.done()
        staged = engine.after_power_loss().scan(PAYLOAD)
        assert len(list(staged)) == 1
        engine.speed_up()
        assert (await second).partitions["0"].failure is None


async def test_a_new_epoch_begins_with_a_barrier_also_after_a_crash_before_it(
    tmp_path: Path,
) -> None:
    async with write_cluster(tmp_path, pods=1, partitions=1) as cluster:
        await cluster.writer().epoch()
        await cluster.stop_pod(0)
        kept = tmp_path / "0" / "assignment.json"
        newer = kept.read_bytes().replace(b'"epoch":1', b'"epoch":2')
        kept.write_bytes(newer)  # As after a crash between the assignment and the Barrier.
        await cluster.start_pod(0)
        replica = cluster.replica(0)
        assert replica.log.configuration.epoch == 2
        await wait_until_async(lambda: replica.log.end == 2)
        entries = [command_of(decode_entry(data)) for _, data in replica.engine.scan(CHANGELOG)]
        assert [one.epoch for one in entries] == [1, 2]
        assert isinstance(entries[-1].command, Barrier)


# --- Repeats


async def test_a_slice_that_is_sent_again_while_it_is_logged_is_logged_once(
    tmp_path: Path,
) -> None:
    async with slow_pod(tmp_path) as (services, engine):
        opened = await opened_writer(services)
        engine.slow_down()
        stage, rows = stage_of(opened, 0), slice_of(b"k")
        requests = [asyncio.ensure_future(services.batches.stage(stage, [rows])) for _ in range(5)]
        await asyncio.sleep(0)
        other = await services.batches.stage(stage, [slice_of(b"other")])
        failure = other.partitions["0"].failure
        assert failure is not None
        error = error_from_wire(failure.code, failure.status, failure.detail, {})
        assert isinstance(error, ChunkMismatchError)
        assert not any(request.done() for request in requests)
        assert len(list(engine.scan(PAYLOAD))) == 1
        engine.speed_up()
        answers = await asyncio.gather(*requests)
        assert all(answer.partitions["0"].failure is None for answer in answers)


async def logged_commit(
    services: Services, engine: SlowSyncEngine
) -> tuple["asyncio.Future[CommitAnswer]", Decision]:
    """A commit of `ROWS_OF_0` that is logged, and waits for the disk; and its decision."""
    opened = await opened_writer(services)
    commit = CommitRequest(generation=1, chunks={}, position={}, fingerprint="b0")
    replica = services.pod.registry.local(0)
    before = replica.log.end
    engine.slow_down()
    rows = tuple(ROWS_OF_0.values())
    answer = asyncio.ensure_future(
        services.coordination.commit("w", opened.writer_epoch, 0, commit, rows)
    )
    engine.let_one_end()  # The sync of the decision.
    await wait_until_async(lambda: replica.log.end == before + 2)
    assert replica.machine.coordinator is not None
    assert replica.machine.coordinator.decision is not None
    return answer, replica.machine.coordinator.decision


async def test_a_commit_that_is_sent_again_while_it_is_logged_is_logged_once(
    tmp_path: Path,
) -> None:
    async with slow_pod(tmp_path) as (services, engine):
        first, decision = await logged_commit(services, engine)
        again = CommitPartitionsRequest(
            store_id=ASSIGNMENT.definition.store_id,
            epochs={"0": Epoch(1)},
            decision=decision,
        )
        end = services.pod.registry.local(0).log.end
        repeat = asyncio.ensure_future(services.batches.commit(again, ROWS_OF_0))
        await asyncio.sleep(0)
        assert services.pod.registry.local(0).log.end == end
        engine.speed_up()
        assert (await repeat).partitions == {"0": None}
        assert (await first).sequence == 1


async def test_another_batch_at_the_sequence_of_a_logged_commit_is_refused(
    tmp_path: Path,
) -> None:
    async with slow_pod(tmp_path) as (services, engine):
        first, decision = await logged_commit(services, engine)
        other = CommitPartitionsRequest(
            store_id=ASSIGNMENT.definition.store_id,
            epochs={"0": Epoch(1)},
            decision=msgspec.structs.replace(decision, batch=7),
        )
        refused = asyncio.ensure_future(services.batches.commit(other, ROWS_OF_0))
        await asyncio.sleep(0)
        engine.speed_up()
        problem = (await refused).partitions["0"]
        assert problem is not None
        assert problem.code == "SEQUENCE_TAKEN"
        assert (await first).sequence == 1


async def test_a_repeated_commit_waits_for_the_logged_decision(
    tmp_path: Path,
) -> None:
    async with slow_pod(tmp_path) as (services, engine):
        opened = await opened_writer(services)
        rows = (slice_of(b"k"),)
        commit = CommitRequest(generation=1, chunks={}, position={}, fingerprint="b0")
        before = services.pod.registry.local(0).log.end
        engine.slow_down()
        first = asyncio.ensure_future(
            services.coordination.commit("w", opened.writer_epoch, 0, commit, rows)
        )
        await wait_until_async(lambda: services.pod.registry.local(0).log.end == before + 1)
        for task in services.coordination.tasks:
            task.cancel()  # As if the request gave up its wait for the disk.
        await asyncio.wait([first])
        second = asyncio.ensure_future(
            services.coordination.commit("w", opened.writer_epoch, 0, commit, rows)
        )
        for _ in range(20):
            await asyncio.sleep(0)
        assert services.pod.registry.local(0).log.end == before + 1
        engine.speed_up()
        assert (await second).already_applied


@pytest.mark.parametrize("step_s", [-2.0, 3600.0])
async def test_a_batch_is_never_dated_before_the_previous_batch(
    tmp_path: Path, step_s: float
) -> None:
    clock = SetClock()
    async with write_cluster(tmp_path, pods=1, partitions=1, clock=clock) as cluster:
        writer = cluster.writer()
        epoch = await writer.epoch()
        times = []
        for batch in range(2):
            chunks = await writer.stage(epoch, batch, f"{epoch}.t.{batch}", {0: {b"k": b"v"}})
            (await writer.commit(epoch, batch, chunks)).json()
            coordinator = cluster.replica(0).machine.coordinator
            assert coordinator is not None
            assert coordinator.decision is not None
            times.append(coordinator.decision.wall_time_ms)
            clock.now_s += step_s
        assert times[1] == max(times[0], times[0] + int(step_s * 1000))


# --- Maintenance


async def test_other_logs_are_cut_while_the_coordinator_of_a_partition_is_away(
    tmp_path: Path,
) -> None:
    clock = SetClock()
    limits = StoreSettings(changelog_retention_ms=1000)
    async with write_cluster(tmp_path, pods=2, partitions=4, clock=clock, limits=limits) as cluster:
        writer = cluster.writer()
        epoch = await writer.epoch()
        rows: dict[int, dict[bytes, bytes | None]] = {1: {b"k": b"v"}, 3: {b"k": b"v"}}
        chunks = await cluster.writer(1).stage(epoch, 0, f"{epoch}.t.0", rows)
        (await writer.commit(epoch, 0, chunks)).json()
        # The sweep of partition 1 asks the coordinator, and gets no answer.
        await cluster.writer(1).stage(epoch, 1, f"{epoch}.t.1", {1: {b"k": b"v"}})
        await cluster.stop_pod(0)
        clock.now_s += 10_000
        await cluster.pods[1].maintenance.round()
        replica = cluster.replica(3)
        await wait_until_async(lambda: replica.log.start == replica.log.end)


async def test_a_log_is_cut_on_a_full_volume_too(tmp_path: Path) -> None:
    memory, faults = open_memory(), Faults()
    engines: list[FullForRows] = []

    def open_engine(path: Path) -> Engine:
        engines.append(FullForRows(memory(path), faults))
        return engines[-1]

    limits = StoreSettings(changelog_retention_bytes=0)
    async with write_cluster(
        tmp_path, pods=1, partitions=1, open_engine=open_engine, limits=limits
    ) as cluster:
        writer = cluster.writer()
        epoch = await writer.epoch()
        (await writer.commit(epoch, 0, {})).json()
        await cluster.pods[0].coordination.driver.finish()
        for engine in engines:
            engine.is_full = True
        (await writer.commit(epoch, 1, {})).problem(507, "DISK_FULL")
        await cluster.pods[0].maintenance.round()
        replica = cluster.replica(0)
        await wait_until_async(lambda: replica.log.start == replica.log.end)


class FullForRows(FaultyEngine):
    """A full volume that takes only writes that make room."""

    is_full = False

    def write(self, batch: Batch, *, makes_room: bool = False) -> None:
        if self.is_full and not makes_room:
            raise DiskFullError("the volume is full")
        super().write(batch, makes_room=makes_room)


async def test_databases_are_not_opened_on_the_event_loop(tmp_path: Path) -> None:
    memory, threads = open_memory(), set()

    def open_engine(path: Path) -> Engine:
        threads.add(threading.current_thread())
        return memory(path)

    async with write_cluster(tmp_path, pods=1, partitions=2, open_engine=open_engine) as cluster:
        await cluster.stop_pod(0)
        await cluster.start_pod(0)
    assert threads
    assert threading.main_thread() not in threads
