"""A volume that went back to an older state is told, and its rows are not served as the data."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from qss_core.errors import CorruptionError, DiskFullError, RolledBackError
from qss_core.losses import AcceptLossRequest
from qss_core.model import Epoch, PartitionId, Sequence
from qss_core.wire import encode
from qss_store.engine.base import Engine
from qss_store.engine.rocksdb import Budget, RocksDbEngine
from qss_testing.http import Answer
from qss_testing.stores import open_rocksdb
from qss_testing.waiting import wait_until_async
from qss_testing.write_cluster import Chunks, Rows, WriteCluster, decide, write_cluster

PARTITIONS = 3


def cluster_of(directory: Path, *, pods: int = 3) -> Any:
    return write_cluster(directory, pods=pods, partitions=PARTITIONS, open_engine=open_rocksdb())


async def write(
    cluster: WriteCluster, batch: int, value: bytes, run: str = "run-1", **members: Any
) -> Answer:
    """A batch of one row in each partition."""
    rows: Mapping[int, Rows] = {number: {b"k": value} for number in range(PARTITIONS)}
    epoch = await cluster.writer().epoch(run)
    chunks: Chunks = {}
    for number, of_it in rows.items():
        ordinal = cluster.configurations[number].active
        id_ = f"{epoch}.t{number}.0"
        chunks |= await cluster.writer(ordinal).stage(epoch, batch, id_, {number: of_it})
    return await cluster.writer().commit(epoch, batch, chunks, **members)


async def rolled_back(cluster: WriteCluster, directory: Path, pod: int) -> None:
    """A cluster with two batches, the volume of one pod as it was after the first one."""
    volume = directory / str(pod)
    (await write(cluster, 0, b"1")).json()
    await cluster.stop_pod(pod)
    shutil.copytree(volume, directory / "backup")
    await cluster.start_pod(pod)
    (await write(cluster, 1, b"2", "run-2")).json()
    await cluster.pods[0].coordination.finish()
    await cluster.stop_pod(pod)
    shutil.rmtree(volume)
    (directory / "backup").rename(volume)
    await cluster.start_pod(pod)


async def accept(cluster: WriteCluster, partition: int, epoch: int = 1) -> Answer:
    request = AcceptLossRequest(
        store_id=cluster.definition.store_id,
        partition=PartitionId(partition),
        epoch=Epoch(epoch),
    )
    pod = cluster.pods[cluster.configurations[partition].active]
    return await pod.internal.send("POST", "/control/accept-data-loss", encode(request), {})


def losses(cluster: WriteCluster, partition: int) -> list[tuple[int, int, int]]:
    pod = cluster.pods[cluster.configurations[partition].active].pod
    (report,) = [one for one in pod.report().replicas if one.configuration.partition == partition]
    assert report.state == "serving", report.error
    return [(one.first, one.last, one.epoch) for one in report.losses]


def values(cluster: WriteCluster) -> list[bytes]:
    return [cluster.rows(number)[b"k"] for number in range(PARTITIONS)]


# --- It is told


@pytest.mark.parametrize("pod", [0, 1])
async def test_a_volume_that_went_back_is_told_when_its_pod_starts(
    tmp_path: Path, pod: int
) -> None:
    async with cluster_of(tmp_path) as cluster:
        await rolled_back(cluster, tmp_path, pod)
        held = cluster.pods[pod].pod
        with pytest.raises(RolledBackError, match=f"partition {pod} holds sequence 1, and 2"):
            held.local(pod)
        (report,) = held.report().replicas
        assert (report.state, report.sequence, report.completed) == ("behind", 1, 2)
        assert report.error is not None
        assert "accept-data-loss: " in report.error
        others = [number for number in range(PARTITIONS) if number != pod]
        assert [cluster.rows(number) for number in others] == [{b"k": b"2"}] * 2


@pytest.mark.parametrize("pod", [0, 1])
async def test_no_batch_is_decided_on_a_volume_that_went_back(tmp_path: Path, pod: int) -> None:
    """Also where nobody has compared: prepare does."""
    async with cluster_of(tmp_path) as cluster:
        await rolled_back(cluster, tmp_path, pod)
        for held in cluster.pods.values():
            held.pod.completion.completed = held.pod.completion.decided = Sequence(0)
        # Another writer: the run that wrote the second batch may be unknown to partition 0.
        writer = cluster.writer(name="other")
        epoch = await writer.epoch()
        answer = await writer.commit(epoch, 0, {})
        detail = answer.problem(503, "ROLLED_BACK")["detail"]
        assert f"partition {pod} holds sequence 1, and 2 was completed" in detail
        coordinator = cluster.replica(0).machine.coordinator
        assert coordinator is not None
        assert coordinator.unfinished is None, "nothing is decided"
        (await writer.commit(epoch, 0, {})).problem(503, "ROLLED_BACK")


async def test_one_partition_of_a_pod_that_went_back_is_told_by_the_others(tmp_path: Path) -> None:
    """The marks of what was synced went back too, so that only sequences tell."""
    async with cluster_of(tmp_path, pods=1) as cluster:
        (await write(cluster, 0, b"1")).json()
        await cluster.stop_pod(0)
        shutil.copytree(tmp_path / "0", tmp_path / "backup")
        await cluster.start_pod(0)
        (await write(cluster, 1, b"2", "run-2")).json()
        await cluster.pods[0].coordination.finish()
        await cluster.stop_pod(0)
        shutil.rmtree(tmp_path / "0" / "partitions" / "2")
        (tmp_path / "backup" / "partitions" / "2").rename(tmp_path / "0" / "partitions" / "2")
        (tmp_path / "0" / "synced.json").unlink()
        held = await cluster.start_pod(0)
        with pytest.raises(RolledBackError):
            held.pod.local(2)
        assert cluster.rows(0) == cluster.rows(1) == {b"k": b"2"}


async def test_a_pod_that_starts_alone_serves_what_it_has(tmp_path: Path) -> None:
    async with cluster_of(tmp_path) as cluster:
        (await write(cluster, 0, b"1")).json()
        for pod in range(3):
            await cluster.stop_pod(pod)
        held = await cluster.start_pod(1)
        assert held.pod.is_ready
        assert cluster.rows(1) == {b"k": b"1"}
        for pod in (0, 2):
            await cluster.start_pod(pod)
        (await write(cluster, 1, b"2", "run-2")).json()
        assert values(cluster) == [b"2"] * 3


async def test_a_stopped_pod_is_not_behind_when_it_starts_again(tmp_path: Path) -> None:
    async with cluster_of(tmp_path) as cluster:
        for batch in range(4):
            (await write(cluster, batch, b"%d" % batch, f"run-{batch}")).json()
            await cluster.stop_pod(batch % 3)
            await cluster.start_pod(batch % 3)
            assert values(cluster) == [b"%d" % batch] * 3


# --- It is accepted


async def test_a_participant_goes_on_where_its_loss_is_accepted(tmp_path: Path) -> None:
    async with cluster_of(tmp_path) as cluster:
        await rolled_back(cluster, tmp_path, 1)
        (await accept(cluster, 1)).json()
        assert losses(cluster, 1) == [(2, 2, 1)]
        assert values(cluster) == [b"2", b"1", b"2"], "the rows are those that are left"
        position = cluster.replica(1).machine.participant.position
        assert position == cluster.replica(0).machine.participant.position
        (await write(cluster, 2, b"3", "run-3")).json()
        assert values(cluster) == [b"3"] * 3
        await cluster.stop_pod(1)
        await cluster.start_pod(1)
        assert losses(cluster, 1) == [(2, 2, 1)]
        (await write(cluster, 3, b"4", "run-4", replace=True)).json()
        assert losses(cluster, 1) == []


async def test_partition_0_goes_on_behind_the_others_where_its_loss_is_accepted(
    tmp_path: Path,
) -> None:
    async with cluster_of(tmp_path) as cluster:
        await rolled_back(cluster, tmp_path, 0)
        (await accept(cluster, 0)).json()
        assert losses(cluster, 0) == [(2, 2, 1)]
        assert values(cluster) == [b"1", b"2", b"2"]
        # The batch that the others hold is known as applied, whatever its inputs were.
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
        await cluster.pods[0].coordination.finish()
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


async def test_a_decided_batch_is_completed_without_the_chunks_that_were_lost(
    tmp_path: Path,
) -> None:
    async with cluster_of(tmp_path) as cluster:
        (await write(cluster, 0, b"1")).json()
        await cluster.pods[0].coordination.finish()
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
        cluster.pods[0].coordination.go_on()
        await wait_until_async(lambda: cluster.rows(2)[b"k"] == b"2")
        assert coordinator.unfinished is not None
        (await accept(cluster, 1)).json()
        await wait_until_async(lambda: coordinator.unfinished is None)
        assert values(cluster) == [b"2", b"1", b"2"]
        assert losses(cluster, 1) == [(2, 2, 1)]


@pytest.mark.parametrize("what", ["directory", "manifest", "changelog"])
async def test_a_partition_that_is_lost_begins_with_what_is_left_of_it(
    tmp_path: Path, what: str
) -> None:
    async with cluster_of(tmp_path) as cluster:
        (await write(cluster, 0, b"1")).json()
        (await write(cluster, 1, b"2", "run-2")).json()
        await cluster.pods[0].coordination.finish()
        await cluster.stop_pod(1)
        database = tmp_path / "1" / "partitions" / "1"
        if what == "directory":
            shutil.rmtree(database)
        elif what == "changelog":  # It opens, and cannot be read.
            flip_in_a_block(database, what)
        else:
            (manifest,) = database.glob("MANIFEST-*")
            manifest.write_bytes(manifest.read_bytes()[:20])
        held = await cluster.start_pod(1)
        with pytest.raises(CorruptionError):
            held.pod.local(1)
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
    budget = Budget.of(cache_bytes=1024 * 1024, write_buffer_bytes=8 * 1024 * 1024)
    engine = RocksDbEngine(database, budget)
    before = set(database.glob("*.sst"))
    engine._families[family].compact_range(None, None)
    engine.close()
    held = set(database.glob("*.sst")) - before or before
    for table in held:
        data = bytearray(table.read_bytes())
        data[20] ^= 0x40
        table.write_bytes(data)


async def test_what_was_synced_of_a_lost_partition_is_forgotten_before_it_is_opened(
    tmp_path: Path,
) -> None:
    """Else a crash right after the acceptance would take the partition out again."""
    async with cluster_of(tmp_path) as cluster:
        (await write(cluster, 0, b"1")).json()
        await cluster.pods[0].coordination.finish()
        await cluster.stop_pod(1)
        shutil.rmtree(tmp_path / "1" / "partitions" / "1")
        held = await cluster.start_pod(1)
        assert b'"1":' in (tmp_path / "1" / "synced.json").read_bytes()
        (await accept(cluster, 1)).json()
        assert b'"1":' not in (tmp_path / "1" / "synced.json").read_bytes()
        assert held.pod.is_ready


async def test_a_loss_of_which_nobody_knows_how_much_it_was_is_told(tmp_path: Path) -> None:
    async with write_cluster(tmp_path, pods=1, partitions=1, open_engine=open_rocksdb()) as cluster:
        epoch = await cluster.writer().epoch()
        (await cluster.writer().commit(epoch, 0, {})).json()
        await cluster.stop_pod(0)
        shutil.rmtree(tmp_path / "0" / "partitions" / "0")
        await cluster.start_pod(0)
        (await accept(cluster, 0)).json()
        assert losses(cluster, 0) == [(1, 0, 1)]
        (report,) = cluster.pods[0].pod.report().replicas
        assert report.accepted_in == 1


async def test_an_acceptance_that_fails_tells_nobody_that_a_batch_was_completed(
    tmp_path: Path,
) -> None:
    async with cluster_of(tmp_path) as cluster:
        (await write(cluster, 0, b"1")).json()
        await cluster.pods[0].coordination.finish()
        await cluster.stop_pod(0)
        (tmp_path / "0" / "partitions" / "0").rename(tmp_path / "aside")
        open_engine, cluster.open_engine = cluster.open_engine, failing_open
        await cluster.start_pod(0)
        (await accept(cluster, 0)).problem(507, "DISK_FULL")
        completed = [held.pod.completion.completed for held in cluster.pods.values()]
        assert max(completed) <= 1
        await cluster.stop_pod(0)
        cluster.open_engine = open_engine
        shutil.rmtree(tmp_path / "0" / "partitions" / "0", ignore_errors=True)
        (tmp_path / "aside").rename(tmp_path / "0" / "partitions" / "0")
        await cluster.start_pod(0)
        assert values(cluster) == [b"1"] * 3


def failing_open(path: Path) -> Engine:
    raise CorruptionError("damaged") if path.exists() else DiskFullError("no room to begin")


async def test_a_rebuild_after_the_loss_of_partition_0_is_written(tmp_path: Path) -> None:
    """Its batch has the number of one that was applied, of a query that nobody knows any more."""
    async with cluster_of(tmp_path) as cluster:
        (await write(cluster, 0, b"1")).json()
        await cluster.pods[0].coordination.finish()
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


async def test_a_database_that_has_no_room_to_be_opened_keeps_no_other_from_being_served(
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
            held.pod.local(2)
        assert [(one.partition, one.is_waiting) for one in held.pod.report().lost] == [(2, True)]
        is_full = False
        await wait_until_async(lambda: PartitionId(2) in held.pod.replicas)
        assert cluster.rows(2) == {b"k": b"1"}
        assert held.pod.report().lost == ()


async def test_all_partitions_of_a_lost_volume_go_on_one_after_the_other(tmp_path: Path) -> None:
    async with cluster_of(tmp_path, pods=2) as cluster:
        (await write(cluster, 0, b"1")).json()
        (await write(cluster, 1, b"2", "run-2")).json()
        await cluster.pods[0].coordination.finish()
        await cluster.stop_pod(0)
        shutil.rmtree(tmp_path / "0" / "partitions")
        await cluster.start_pod(0)
        refused = (await accept(cluster, 2)).problem(503, "NOT_READY")
        assert "accept its loss first" in refused["detail"]
        (await accept(cluster, 0)).json()
        (await accept(cluster, 2)).json()
        assert [losses(cluster, number) for number in range(3)] == [[(1, 2, 1)], [], [(1, 2, 1)]]
        (await write(cluster, 2, b"3", "run-3")).json()
        assert values(cluster) == [b"3"] * 3


async def test_a_loss_is_accepted_in_its_epoch_alone_and_only_where_there_is_one(
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


# --- A store that is made


async def test_a_store_takes_no_writer_before_every_partition_is_made(tmp_path: Path) -> None:
    async with cluster_of(tmp_path, pods=2) as cluster:
        await cluster.stop_pod(1)
        (await cluster.writer().open()).problem(503, "UNREACHABLE")
        assert cluster.replica(0).log.end == 0
        await cluster.start_pod(1)
        (await cluster.writer().open()).json()
