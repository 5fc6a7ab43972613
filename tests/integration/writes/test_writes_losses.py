"""Partitions that lost batches continue without them after a person accepts the loss."""

import asyncio
import shutil
from pathlib import Path

import pytest

from qss_core.errors import CorruptionError, DiskFullError, NotReadyError
from qss_core.model import PartitionId
from qss_store.storage.engine import Engine
from qss_store.storage.rocksdb.database import RocksDbEngine
from qss_store.storage.rocksdb.memory_budget import MemoryBudget
from qss_testing.faults.rolled_back import (
    PARTITIONS,
    accept,
    cluster_of,
    losses,
    rolled_back,
    values,
    write,
)
from qss_testing.pods.stores import open_rocksdb
from qss_testing.pods.write_cluster import Chunks, decide, write_cluster
from qss_testing.waiting import wait_until_async

ACCEPTED = "loss accepted in epoch 1"


def told_losses(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The log's lines about accepted losses, each from the number of its partition on."""
    lines = (record.getMessage() for record in caplog.records if record.levelname == "ERROR")
    return [line.removeprefix("partition ") for line in lines if "continues without" in line]


async def test_a_participant_continues_after_its_loss_is_accepted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with cluster_of(tmp_path) as cluster:
        await rolled_back(cluster, tmp_path, 1)
        (await accept(cluster, 1)).json()
        assert told_losses(caplog) == ["1 continues without sequences 2 to 2: " + ACCEPTED]
        assert losses(cluster, 1) == [(2, 2, 1)]
        assert values(cluster) == [b"2", b"1", b"2"], "the remaining rows are served"
        position = cluster.replica(1).machine.participant.position
        assert position == cluster.replica(0).machine.participant.position
        (await write(cluster, 2, b"3", "run-3")).json()
        assert values(cluster) == [b"3"] * 3
        await cluster.stop_pod(1)
        await cluster.start_pod(1)
        assert losses(cluster, 1) == [(2, 2, 1)]
        (await write(cluster, 3, b"4", "run-4", replace=True)).json()
        assert losses(cluster, 1) == []


async def test_a_partition_reports_no_batches_while_it_applies_a_batch(
    tmp_path: Path,
) -> None:
    async with cluster_of(tmp_path, pods=1) as cluster:
        (await write(cluster, 0, b"1")).json()
        replica, comparison = cluster.replica(1), cluster.pods[0].comparison
        async with replica.format_change.redefining(
            replica.definition
        ):  # A batch waits to be applied.
            commit = asyncio.ensure_future(write(cluster, 1, b"2", "run-2"))
            await wait_until_async(lambda: replica.pending.commits)
            with pytest.raises(NotReadyError, match="is applying a batch"):
                comparison.held(PartitionId(1))
        (await commit).json()
        held = comparison.held(PartitionId(1))
        assert held is not None
        assert (held.sequence, held.decided) == (2, 2)


async def test_partition_0_continues_behind_the_others_after_its_loss_is_accepted(
    tmp_path: Path,
) -> None:
    async with cluster_of(tmp_path) as cluster:
        await rolled_back(cluster, tmp_path, 0)
        (await accept(cluster, 0)).json()
        assert losses(cluster, 0) == [(2, 2, 1)]
        assert values(cluster) == [b"1", b"2", b"2"]
        # The batch that the other partitions hold counts as applied, whatever its fingerprint.
        writer = cluster.writer()
        replay = await writer.commit(await writer.epoch("run-3"), 1, {}, "whatever")
        assert replay.json()["alreadyApplied"]
        (await write(cluster, 2, b"3", "run-4")).json()
        assert values(cluster) == [b"3"] * 3
        sequences = [cluster.replica(number).machine.participant.sequence for number in range(3)]
        assert sequences == [3, 3, 3]
        await cluster.stop_pod(0)
        await cluster.start_pod(0)
        assert losses(cluster, 0) == [(2, 2, 1)]


async def test_writers_that_partition_0_has_lost_are_known_by_their_last_batch(
    tmp_path: Path,
) -> None:
    async with cluster_of(tmp_path) as cluster:
        (await write(cluster, 0, b"1")).json()
        await cluster.stop_pod(0)
        shutil.copytree(tmp_path / "0", tmp_path / "backup")
        await cluster.start_pod(0)
        newer = cluster.writer(name="newer")
        epoch = await newer.epoch("run-n", "query-n")
        (await newer.commit(epoch, 7, {})).json()
        await cluster.pods[0].coordination.driver.finish()
        await cluster.stop_pod(0)
        shutil.rmtree(tmp_path / "0")
        (tmp_path / "backup").rename(tmp_path / "0")
        await cluster.start_pod(0)
        (await accept(cluster, 0)).json()
        newer = cluster.writer(name="newer")
        (await newer.commit(epoch, 8, {})).problem(409, "STALE_WRITER")
        again = await newer.epoch("run-o", "query-n")
        assert again > epoch, "no epoch is given twice"
        assert (await newer.commit(again, 7, {}, "whatever")).json()["alreadyApplied"]
        (await newer.commit(again, 9, {})).problem(409, "BATCH_GAP")
        assert (await newer.commit(again, 8, {})).json()["sequence"] == 3


async def test_a_run_that_an_accepted_loss_ended_is_told_so(tmp_path: Path) -> None:
    """No other run has opened: the writers of partition 0 are known by their last batch alone."""
    async with cluster_of(tmp_path) as cluster:
        await rolled_back(cluster, tmp_path, 0)
        (await accept(cluster, 0)).json()
        writer = cluster.writer()
        # The openings of "run-2" are lost, and "run-1" has opened before them.
        again = (await writer.open("run-1", openId="again")).problem(409, "STALE_WRITER")["detail"]
        assert again == (
            "the loss of batches of partition 0 was accepted in its epoch 1, which ended this run "
            "of writer job: open the writer with another runId, and go on after the lastBatch of "
            "the answer"
        )
        held = cluster.replica(0).machine.coordinator
        assert held is not None
        for epoch in (held.writer("job").writer_epoch, held.last_epoch + 1):
            committed = await writer.commit(epoch, 2, {})
            assert committed.problem(409, "STALE_WRITER")["detail"] == again
        # After that the reason is the usual one.
        epoch = await writer.epoch("run-3")
        assert (await writer.commit(epoch, 2, {})).json()["sequence"] == 3
        stale = (await writer.open("run-1", openId="later")).problem(409, "STALE_WRITER")
        assert stale["detail"] == "a younger run of writer job has opened: stop this one"


async def test_a_decided_batch_is_completed_without_the_chunks_that_were_lost(
    tmp_path: Path,
) -> None:
    async with cluster_of(tmp_path) as cluster:
        (await write(cluster, 0, b"1")).json()
        await cluster.pods[0].coordination.driver.finish()
        await cluster.stop_pod(1)
        shutil.copytree(tmp_path / "1", tmp_path / "backup")
        await cluster.start_pod(1)
        epoch = await cluster.writer().epoch("run-2")
        chunks: Chunks = {}
        for number in range(PARTITIONS):
            chunks |= await cluster.writer(number).stage(
                epoch, 1, f"{epoch}.t{number}.0", {number: {b"k": b"2"}}
            )
        await cluster.stop_pod(1)
        await decide(cluster, cluster.writer(), 1, chunks)
        shutil.rmtree(tmp_path / "1")
        (tmp_path / "backup").rename(tmp_path / "1")
        await cluster.start_pod(1)
        coordinator = cluster.replica(0).machine.coordinator
        assert coordinator is not None
        cluster.pods[0].coordination.driver.go_on()
        await wait_until_async(lambda: cluster.rows(2)[b"k"] == b"2")
        assert coordinator.unfinished is not None
        (await accept(cluster, 1)).json()
        await wait_until_async(lambda: coordinator.unfinished is None)
        assert values(cluster) == [b"2", b"1", b"2"]
        assert losses(cluster, 1) == [(2, 2, 1)]


@pytest.mark.parametrize("what", ["directory", "manifest", "changelog"])
async def test_a_lost_partition_begins_empty_after_its_loss_is_accepted(
    tmp_path: Path, what: str
) -> None:
    async with cluster_of(tmp_path) as cluster:
        (await write(cluster, 0, b"1")).json()
        (await write(cluster, 1, b"2", "run-2")).json()
        await cluster.pods[0].coordination.driver.finish()
        await cluster.stop_pod(1)
        database = tmp_path / "1" / "partitions" / "1"
        if what == "directory":
            shutil.rmtree(database)
        elif what == "changelog":  # The database opens, and its changelog cannot be read.
            flip_in_a_block(database, what)
        else:
            (manifest,) = database.glob("MANIFEST-*")
            manifest.write_bytes(manifest.read_bytes()[:20])
        held = await cluster.start_pod(1)
        with pytest.raises(CorruptionError):
            held.pod.registry.local(1)
        assert [one.partition for one in held.pod.report().lost] == [1]
        (await accept(cluster, 1)).json()
        assert held.pod.report().lost == ()
        assert losses(cluster, 1) == [(1, 2, 1)]
        assert cluster.rows(1) == {}
        aside = tmp_path / "1" / "partitions" / "1.damaged-1"
        assert aside.exists() == (what != "directory")
        (await write(cluster, 2, b"3", "run-3")).json()
        assert values(cluster) == [b"3"] * 3
        await cluster.stop_pod(1)
        await cluster.start_pod(1)
        assert values(cluster) == [b"3"] * 3


def flip_in_a_block(database: Path, family: str) -> None:
    """Damages one bit of a family's only table."""
    budget = MemoryBudget.of(cache_bytes=1024 * 1024, write_buffer_bytes=8 * 1024 * 1024)
    engine = RocksDbEngine(database, budget)
    before = set(database.glob("*.sst"))
    engine.column_families[family].compact_range(None, None)
    engine.close()
    held = set(database.glob("*.sst")) - before or before
    for table in held:
        data = bytearray(table.read_bytes())
        data[20] ^= 0x40
        table.write_bytes(data)


async def test_a_loss_of_unknown_size_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with write_cluster(tmp_path, pods=1, partitions=1, open_engine=open_rocksdb()) as cluster:
        epoch = await cluster.writer().epoch()
        (await cluster.writer().commit(epoch, 0, {})).json()
        await cluster.stop_pod(0)
        shutil.rmtree(tmp_path / "0" / "partitions" / "0")
        await cluster.start_pod(0)
        (await accept(cluster, 0)).json()
        assert losses(cluster, 0) == [(1, 0, 1)]
        later = "1 and later, if there were any"
        assert told_losses(caplog) == [f"0 continues without sequences {later}: {ACCEPTED}"]
        (report,) = cluster.pods[0].pod.report().replicas
        assert report.accepted_in == 1


async def test_a_failed_acceptance_reports_no_batch_as_completed(
    tmp_path: Path,
) -> None:
    async with cluster_of(tmp_path) as cluster:
        (await write(cluster, 0, b"1")).json()
        await cluster.pods[0].coordination.driver.finish()
        await cluster.stop_pod(0)
        (tmp_path / "0" / "partitions" / "0").rename(tmp_path / "aside")
        open_engine, is_full = cluster.open_engine, False

        def open_where_there_is_room(path: Path) -> Engine:
            if is_full:
                raise DiskFullError("no room to begin")
            engine: Engine = open_engine(path)
            return engine

        cluster.open_engine = open_where_there_is_room
        await cluster.start_pod(0)
        is_full = True
        (await accept(cluster, 0)).problem(507, "DISK_FULL")
        completed = [held.pod.registry.completion.completed for held in cluster.pods.values()]
        assert max(completed) <= 1
        await cluster.stop_pod(0)
        cluster.open_engine = open_engine
        shutil.rmtree(tmp_path / "0" / "partitions" / "0", ignore_errors=True)
        (tmp_path / "aside").rename(tmp_path / "0" / "partitions" / "0")
        await cluster.start_pod(0)
        assert values(cluster) == [b"1"] * 3


async def test_a_rebuild_after_the_loss_of_partition_0_is_written(tmp_path: Path) -> None:
    """The rebuild has the number of an applied batch, whose query partition 0 has lost."""
    async with cluster_of(tmp_path) as cluster:
        (await write(cluster, 0, b"1")).json()
        await cluster.pods[0].coordination.driver.finish()
        await cluster.stop_pod(0)
        shutil.rmtree(tmp_path / "0" / "partitions" / "0")
        await cluster.start_pod(0)
        (await accept(cluster, 0)).json()
        writer = cluster.writer()
        opened = (await writer.open("run-2", "another-query", takeOver=True)).json()
        epoch, generation = opened["writerEpoch"], opened["generation"]
        assert opened["lastBatch"] is None
        answer = await writer.commit(epoch, 0, {}, "rebuild", generation=generation, replace=True)
        assert not answer.json()["alreadyApplied"]
        assert all(cluster.rows(number) == {} for number in range(PARTITIONS))
        assert losses(cluster, 0) == []


async def test_other_partitions_are_served_while_a_database_has_no_room_to_open(
    tmp_path: Path,
) -> None:
    async with cluster_of(tmp_path, pods=1) as cluster:
        (await write(cluster, 0, b"1")).json()
        await cluster.stop_pod(0)
        open_engine, is_full = cluster.open_engine, True

        def open_where_there_is_room(path: Path) -> Engine:
            if is_full and path.name == "2":
                raise DiskFullError("the volume is full")
            engine: Engine = open_engine(path)
            return engine

        cluster.open_engine = open_where_there_is_room
        held = await cluster.start_pod(0)
        assert held.pod.is_ready
        assert cluster.rows(0) == cluster.rows(1) == {b"k": b"1"}
        with pytest.raises(DiskFullError):
            held.pod.registry.local(2)
        assert [(one.partition, one.is_waiting) for one in held.pod.report().lost] == [(2, True)]
        is_full = False
        await wait_until_async(lambda: PartitionId(2) in held.pod.registry.replicas)
        assert cluster.rows(2) == {b"k": b"1"}
        assert held.pod.report().lost == ()


async def test_the_losses_of_a_volume_are_accepted_one_partition_after_the_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with cluster_of(tmp_path, pods=2) as cluster:
        (await write(cluster, 0, b"1")).json()
        (await write(cluster, 1, b"2", "run-2")).json()
        await cluster.pods[0].coordination.driver.finish()
        await cluster.stop_pod(0)
        shutil.rmtree(tmp_path / "0" / "partitions")
        await cluster.start_pod(0)
        refused = (await accept(cluster, 2)).problem(503, "NOT_READY")
        assert "accept its loss first" in refused["detail"]
        (await accept(cluster, 0)).json()
        (await accept(cluster, 2)).json()
        assert [losses(cluster, number) for number in range(3)] == [[(1, 2, 1)], [], [(1, 2, 1)]]
        lost = "continues without sequences 1 to 2: " + ACCEPTED
        assert told_losses(caplog) == [f"0 {lost}", f"2 {lost}"]
        (await write(cluster, 2, b"3", "run-3")).json()
        assert values(cluster) == [b"3"] * 3


async def test_an_acceptance_needs_the_current_epoch_and_a_loss(
    tmp_path: Path,
) -> None:
    async with cluster_of(tmp_path) as cluster:
        await rolled_back(cluster, tmp_path, 1)
        (await accept(cluster, 1, epoch=2)).problem(409, "STALE_EPOCH")
        end = cluster.replica(2).log.end
        (await accept(cluster, 2)).json()
        assert cluster.replica(2).log.end == end
        assert losses(cluster, 2) == []
        (await accept(cluster, 1)).json()
        end = cluster.replica(1).log.end
        (await accept(cluster, 1)).json()
        assert cluster.replica(1).log.end == end
