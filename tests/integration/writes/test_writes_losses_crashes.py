"""An interrupted acceptance leaves the partition lost, and drops no batch that still exists."""

import asyncio
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from qss_client.chunks.chunk import encode_slice
from qss_core.errors import CorruptionError, RolledBackError, StoreError
from qss_core.model import WriterEpoch
from qss_core.wire.messages import CommitRequest
from qss_store.storage.engine import PAYLOAD, Batch, Engine
from qss_store.transactions.commands import Decide
from qss_store.writes.commit_checks import references
from qss_store.writes.commit_driver import active_coordinator
from qss_testing.faults.faulty_engine import Faults, FaultyEngine
from qss_testing.faults.rolled_back import PARTITIONS, accept, cluster_of, losses, values, write
from qss_testing.pods.stores import open_rocksdb
from qss_testing.pods.write_cluster import (
    Chunks,
    Rows,
    WriteCluster,
    decide,
    table_of,
    write_cluster,
)
from qss_testing.waiting import wait_until_async

STEPS_MAX = 50


@dataclass(slots=True)
class Disk:
    """A disk that fails after `left` writes and syncs."""

    left: int = 10**9

    def step(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise StoreError("the disk is gone")


class OnDisk(FaultyEngine):
    """An engine on a `Disk`."""

    def __init__(self, inner: Engine, disk: Disk, faults: Faults) -> None:
        super().__init__(inner, faults)
        self._disk = disk

    def write(self, batch: Batch, *, makes_room: bool = False) -> None:
        self._disk.step()
        super().write(batch, makes_room=makes_room)

    def sync(self) -> None:
        self._disk.step()
        super().sync()


def cut_the_log(database: Path, size: int) -> None:
    """Cuts bytes from the end of the newest write-ahead log."""
    log = max(database.glob("*.log"), key=lambda one: int(one.stem))
    log.write_bytes(log.read_bytes()[:-size])


async def killed_pod(cluster: WriteCluster, directory: Path, pod: int) -> None:
    """Stops a pod and restores its volume as it was before the stop, as after kill -9."""
    held = cluster.pods[pod].pod
    await held.marks.round(cluster.definition.store_id)
    shutil.copytree(directory / str(pod), directory / "killed")
    await cluster.stop_pod(pod)
    shutil.rmtree(directory / str(pod))
    (directory / "killed").rename(directory / str(pod))


async def put_back(cluster: WriteCluster, directory: Path, pod: int, backup: str) -> None:
    """Stops a pod and replaces its volume by the backup."""
    await cluster.stop_pod(pod)
    shutil.rmtree(directory / str(pod))
    (directory / backup).rename(directory / str(pod))


async def back_up(cluster: WriteCluster, directory: Path, pod: int) -> None:
    """Copies the volume of a pod as it is now."""
    await cluster.stop_pod(pod)
    shutil.copytree(directory / str(pod), directory / "backup")
    await cluster.start_pod(pod)


# --- Interrupted acceptances


async def test_an_acceptance_whose_mark_cannot_be_written_can_be_repeated(
    tmp_path: Path,
) -> None:
    async with write_cluster(
        tmp_path, pods=1, partitions=PARTITIONS, open_engine=open_rocksdb()
    ) as cluster:
        await write(cluster, 0, b"1")
        await cluster.pods[0].coordination.driver.finish()
        await killed_pod(cluster, tmp_path, 0)
        shutil.rmtree(tmp_path / "0" / "partitions" / "1")
        await cluster.start_pod(0)
        marks = tmp_path / "0" / "synced.json"
        marks.unlink()
        marks.mkdir()  # The file cannot be written.
        for _ in range(2):
            assert (await accept(cluster, 1)).status == 503
        marks.rmdir()
        (await accept(cluster, 1)).json()
        assert not list((tmp_path / "0").rglob("loss-being-accepted"))
        assert len(losses(cluster, 1)) == 1
        await cluster.stop_pod(0)
        held = await cluster.start_pod(0)
        assert not held.pod.report().lost


@pytest.mark.parametrize("what", ["directory", "log"])
async def test_an_interrupted_acceptance_leaves_the_partition_lost(
    tmp_path: Path, what: str
) -> None:
    disk, faults = Disk(), Faults()
    rocksdb = open_rocksdb()
    async with write_cluster(
        tmp_path,
        pods=1,
        partitions=1,
        open_engine=lambda path: OnDisk(rocksdb(path), disk, faults),
    ) as cluster:
        first = await cluster.writer().epoch("run-1")
        for batch in range(3):
            rows: Rows = {b"k": b"%d" % batch}
            chunks = await cluster.writer().stage(first, batch, f"{first}.t{batch}.0", {0: rows})
            (await cluster.writer().commit(first, batch, chunks)).json()
            await cluster.pods[0].coordination.driver.finish()
        await killed_pod(cluster, tmp_path, 0)
        if what == "directory":
            shutil.rmtree(tmp_path / "0" / "partitions" / "0")
        else:
            cut_the_log(tmp_path / "0" / "partitions" / "0", 2500)
        shutil.copytree(tmp_path / "0", tmp_path / "lost")
        for steps in range(STEPS_MAX):
            shutil.rmtree(tmp_path / "0")
            shutil.copytree(tmp_path / "lost", tmp_path / "0")
            held = await cluster.start_pod(0)
            disk.left = steps
            answer = await accept(cluster, 0)
            disk.left = 10**9
            if answer.status == 200:
                break
            await cluster.assign(cluster.configurations)  # The pod opens its replicas again.
            with pytest.raises(CorruptionError):
                held.pod.registry.local(0)
            await cluster.stop_pod(0)
            held = await cluster.start_pod(0)
            assert [one.partition for one in held.pod.report().lost] == [0], steps
            (await accept(cluster, 0)).json()
            assert len(losses(cluster, 0)) == 1
            second = await cluster.writer().epoch("run-2", "another", takeOver=True)
            assert second > first, "no epoch is given twice"
            await cluster.stop_pod(0)
        assert 3 < steps < STEPS_MAX - 1
        assert len(losses(cluster, 0)) == 1


async def test_a_partition_that_is_being_opened_is_not_lost(tmp_path: Path) -> None:
    async with cluster_of(tmp_path) as cluster:
        (await write(cluster, 0, b"1")).json()
        await cluster.pods[0].coordination.driver.finish()
        await cluster.stop_pod(1)
        open_engine, begun = cluster.open_engine, asyncio.Event()
        loop, go_on = asyncio.get_running_loop(), asyncio.Event()

        async def held_up() -> None:
            begun.set()
            await go_on.wait()

        def slow(path: Path) -> Engine:
            asyncio.run_coroutine_threadsafe(held_up(), loop).result()
            engine: Engine = open_engine(path)
            return engine

        cluster.open_engine = slow
        starting = asyncio.create_task(cluster.start_pod(1))
        await begun.wait()
        refusing = asyncio.create_task(accept(cluster, 1))
        go_on.set()
        await starting
        answer = await refusing
        if answer.status != 200:  # The request may come after the partition was opened.
            answer.problem(503, "NOT_READY")
        assert losses(cluster, 1) == []
        assert b'"1":' in (tmp_path / "1" / "synced.json").read_bytes()


# --- Batches in flight


async def decided_with_its_rows(cluster: WriteCluster, batch: int, rows: Rows) -> None:
    """Decides a batch whose rows are only in the decision."""
    epoch = WriterEpoch(await cluster.writer().epoch(f"run-{batch}"))
    slices = tuple(encode_slice(number, table_of(rows)) for number in range(PARTITIONS))
    coordination = cluster.pods[0].coordination
    replica, coordinator = active_coordinator(cluster.pods[0].pod)
    request = CommitRequest(
        generation=1,
        chunks=references(epoch, slices),
        position={"flights": {"0": batch}},
        fingerprint=f"batch-{batch}",
    )
    decision = coordination.make_decision(
        coordinator, coordinator.writer("job"), batch, request, carries_rows=True
    )
    payload = b"".join(bytes(one.data) for one in slices)
    await replica.append(Decide(decision=decision, payload_bytes=len(payload)), payload)


async def test_a_participant_takes_the_batch_in_flight_after_its_loss_is_accepted(
    tmp_path: Path,
) -> None:
    async with cluster_of(tmp_path) as cluster:
        (await write(cluster, 0, b"1")).json()
        await cluster.pods[0].coordination.driver.finish()
        await back_up(cluster, tmp_path, 1)
        (await write(cluster, 1, b"2", "run-2")).json()
        await cluster.pods[0].coordination.driver.finish()
        await put_back(cluster, tmp_path, 1, "backup")
        await decided_with_its_rows(cluster, 2, {b"k": b"3", b"only-in-3": b"3"})
        cluster.pods[0].coordination.driver.go_on()
        await wait_until_async(lambda: cluster.rows(0)[b"k"] == cluster.rows(2)[b"k"] == b"3")
        held = await cluster.start_pod(1)
        with pytest.raises(RolledBackError, match="holds sequence 1, and at least 2 was completed"):
            held.pod.registry.local(1)
        (await accept(cluster, 1)).json()
        coordinator = cluster.replica(0).machine.coordinator
        assert coordinator is not None
        await wait_until_async(lambda: coordinator.unfinished is None)
        assert cluster.rows(1) == {b"k": b"3", b"only-in-3": b"3"}
        assert losses(cluster, 1) == [(2, 2, 1)]
        positions = {cluster.replica(n).machine.participant.position for n in range(PARTITIONS)}
        assert len(positions) == 1


async def staged_and_decided(cluster: WriteCluster, away: int) -> None:
    """Decides batch 1, with a chunk in each partition, while one pod is stopped."""
    epoch = await cluster.writer().epoch("run-2")
    chunks: Chunks = {}
    for number in range(PARTITIONS):
        chunk = f"{epoch}.t{number}.0"
        chunks |= await cluster.writer(number).stage(epoch, 1, chunk, {number: {b"k": b"2"}})
    await cluster.stop_pod(away)
    await decide(cluster, cluster.writer(), 1, chunks)


async def test_a_decision_that_partition_0_still_has_is_completed_after_its_loss(
    tmp_path: Path,
) -> None:
    async with cluster_of(tmp_path) as cluster:
        (await write(cluster, 0, b"1")).json()
        await cluster.pods[0].coordination.driver.finish()
        await staged_and_decided(cluster, away=2)
        cluster.pods[0].coordination.driver.go_on()
        await wait_until_async(lambda: cluster.rows(0)[b"k"] == cluster.rows(1)[b"k"] == b"2")
        await killed_pod(cluster, tmp_path, 0)
        cut_the_log(tmp_path / "0" / "partitions" / "0", 5)
        held = await cluster.start_pod(0)
        with pytest.raises(CorruptionError):
            held.pod.registry.local(0)
        await cluster.start_pod(2)
        (await accept(cluster, 0)).json()
        await wait_until_async(lambda: cluster.rows(2)[b"k"] == b"2")
        assert losses(cluster, 2) == []
        (await write(cluster, 2, b"3", "run-3")).json()
        assert values(cluster) == [b"3"] * 3


async def test_a_decision_with_damaged_rows_is_reported_and_its_loss_can_be_accepted(
    tmp_path: Path,
) -> None:
    async with cluster_of(tmp_path) as cluster:
        (await write(cluster, 0, b"1")).json()
        await cluster.pods[0].coordination.driver.finish()
        await cluster.stop_pod(1)
        await decided_with_its_rows(cluster, 1, {b"k": b"2"})
        replica, coordinator = active_coordinator(cluster.pods[0].pod)
        offset = coordinator.decision_offset
        assert offset is not None
        spoil_payload(replica.engine, offset)
        cluster.pods[0].coordination.driver.go_on()
        held = cluster.pods[0].pod
        await wait_until_async(lambda: held.registry.completion.lacks(replica) == 2)
        (report,) = held.report().replicas
        assert (report.state, report.completed) == ("behind", 2)
        await cluster.start_pod(1)
        (await accept(cluster, 0)).json()
        for number in (1, 2):
            await cluster.pods[number].comparison.round()
            (await accept(cluster, number)).json()
        assert [losses(cluster, number) for number in range(3)] == [[(2, 2, 1)]] * 3
        (await write(cluster, 2, b"3", "run-3")).json()
        assert values(cluster) == [b"3"] * 3


def spoil_payload(engine: Engine, offset: int) -> None:
    """Deletes the rows of the decision."""
    keys = [key for key, _ in engine.scan(PAYLOAD) if int.from_bytes(key[:8], "big") == offset]
    batch = engine.batch()
    for key in keys:
        batch.delete(PAYLOAD, key)
    engine.write(batch)


async def test_a_drive_that_outlives_an_acceptance_continues_with_the_next_batch(
    tmp_path: Path,
) -> None:
    async with cluster_of(tmp_path) as cluster:
        (await write(cluster, 0, b"1")).json()
        coordination = cluster.pods[0].coordination
        await coordination.driver.finish()
        replica, coordinator = active_coordinator(cluster.pods[0].pod)
        last = cluster.replica(2)
        async with last.format_change.redefining(last.definition):  # The batch waits.
            await decided_with_its_rows(cluster, 1, {b"k": b"2"})
            coordination.driver.go_on()
            await wait_until_async(lambda: last.pending.commits)
            (driven,) = coordination.driver.tasks
            # As after an acceptance that completed the batch.
            coordinator.completed = coordinator.decided
            await decided_with_its_rows(cluster, 2, {b"k": b"3"})
            coordination.driver.go_on()
            assert coordination.driver.tasks == [driven]
        await wait_until_async(lambda: values(cluster) == [b"3"] * 3)
        await wait_until_async(lambda: coordinator.unfinished is None)
        assert replica.log.end < 30


# --- Positions


async def test_the_inputs_of_writers_are_taken_over_with_the_position(tmp_path: Path) -> None:
    async with cluster_of(tmp_path) as cluster:
        (await write(cluster, 0, b"1", position={"ta": {"0": 100}})).json()
        other = cluster.writer(name="other")
        epoch = await other.epoch("run-o", "query-o")
        (await other.commit(epoch, 0, {}, position={"tb": {"0": 7}})).json()
        await cluster.pods[0].coordination.driver.finish()
        await back_up(cluster, tmp_path, 1)
        other = cluster.writer(name="other")
        (await other.commit(epoch, 1, {}, position={"tb": {"0": 8}})).json()
        await cluster.pods[0].coordination.driver.finish()
        await put_back(cluster, tmp_path, 1, "backup")
        await cluster.start_pod(1)
        (await accept(cluster, 1)).json()
        opened = (await cluster.writer().open("run-2", "query-2", takeOver=True)).json()
        answer = await cluster.writer().commit(
            opened["writerEpoch"], 0, {}, generation=opened["generation"], position={"ta": {"0": 5}}
        )
        answer.json()
        positions = [cluster.replica(n).machine.participant.position for n in range(PARTITIONS)]
        assert positions == [positions[0]] * PARTITIONS
        assert positions[0].offset_of("ta", 0) == 5
