"""Pods serve all whole partitions when one partition is damaged or the volume is full."""

import asyncio
import shutil
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from msgspec.structs import replace

from qss_core.errors import CorruptionError, DiskFullError
from qss_core.model import Epoch, Ordinal, PartitionId
from qss_core.wire.messages import partition_commit
from qss_store.replicas.migration_pacing import Migrator
from qss_store.replication.entries import encode_entry, encode_offset
from qss_store.runtime.settings import Settings
from qss_store.storage.commit_rows.commit_writer import APPLYING
from qss_store.storage.database_files import newest_log
from qss_store.storage.engine import CHANGELOG, META, PAYLOAD, Batch, Engine
from qss_store.storage.rocksdb.database import RocksDbEngine
from qss_store.storage.rocksdb.memory_budget import MemoryBudget
from qss_store.transactions.commands import Commit, LoggedCommand, entry_of
from qss_testing.faults.faulty_engine import Faults, FaultyEngine
from qss_testing.pods.stores import open_memory, open_rocksdb
from qss_testing.pods.write_cluster import Chunks, WriteCluster, Writer, decide, write_cluster
from qss_testing.waiting import wait_until_async

PARTITIONS = 3
SPOILT = 1
ROWS = {b"k": b"v"}


async def write(cluster: WriteCluster, batches: int, rows: dict[bytes, bytes]) -> Writer:
    writer = cluster.writer()
    epoch = await writer.epoch()
    for batch in range(batches):
        chunks = await stage(writer, epoch, batch, rows)
        (await writer.commit(epoch, batch, chunks)).json()
    return writer


async def stage(writer: Writer, epoch: int, batch: int, rows: dict[bytes, bytes]) -> Chunks:
    of_each = dict.fromkeys(range(PARTITIONS), rows)
    return await writer.stage(epoch, batch, f"{epoch}.t{batch}.0", of_each)


async def assert_only_one_is_lost(cluster: WriteCluster, why: str) -> None:
    pod = cluster.pods[0].pod
    assert pod.is_ready
    assert sorted(pod.registry.replicas) == [0, 2]
    assert (cluster.rows(0), cluster.rows(2)) == (ROWS, ROWS)
    with pytest.raises(CorruptionError, match=why):
        pod.registry.local(SPOILT)


# --- Damaged blocks


@pytest.mark.parametrize("family", ["meta", "changelog"])
async def test_a_damaged_block_loses_only_its_partition(tmp_path: Path, family: str) -> None:
    async with write_cluster(
        tmp_path, pods=1, partitions=PARTITIONS, open_engine=open_rocksdb()
    ) as cluster:
        await write(cluster, 3, ROWS)
        engine = cluster.replica(SPOILT).engine
        assert isinstance(engine, RocksDbEngine)
        directory = tmp_path / "0" / "partitions" / str(SPOILT)
        before = set(directory.glob("*.sst"))
        engine.column_families[family].flush()
        (made,) = set(directory.glob("*.sst")) - before
        shutil.copytree(directory, tmp_path / "copy")  # The files at a power loss.
        await cluster.stop_pod(0)
        shutil.rmtree(directory)
        (tmp_path / "copy").rename(directory)
        data = bytearray(made.read_bytes())
        data[20] ^= 0x40  # Flips one bit of the first block.
        made.write_bytes(data)
        cluster.open_engine = open_rocksdb()  # With an empty block cache.
        await cluster.start_pod(0)
        await assert_only_one_is_lost(cluster, "partition 1 of pod words-0 is lost")


async def test_missing_rows_of_a_decided_commit_lose_only_their_partition(
    tmp_path: Path,
) -> None:
    async with write_cluster(tmp_path, pods=1, partitions=PARTITIONS) as cluster:
        writer = await write(cluster, 1, ROWS)
        epoch = await writer.epoch("run-2")
        chunks = await stage(writer, epoch, 1, ROWS)
        await decide(cluster, writer, 1, chunks)
        coordinator = cluster.replica(0).machine.coordinator
        assert coordinator is not None
        assert coordinator.decision is not None
        replica = cluster.replica(SPOILT)
        part = partition_commit(coordinator.decision, PartitionId(SPOILT))
        logged = LoggedCommand(Epoch(1), 0, Commit(commit=part))
        (chunk,) = replica.machine.participant.staged.values()
        batch = replica.engine.batch()  # A crash right after the commit was logged, and damage.
        batch.put(CHANGELOG, encode_offset(replica.log.end), encode_entry(entry_of(logged, 0)))
        batch.delete(PAYLOAD, encode_offset(chunk.offset))
        replica.engine.write(batch)
        await cluster.stop_pod(0)
        await cluster.start_pod(0)
        await assert_only_one_is_lost(cluster, "is lost: the rows of entry")


# --- Full volumes


class FullWhenTold(FaultyEngine):
    """A volume that takes no writes while it is full."""

    def __init__(self, inner: Engine, faults: Faults, is_full: Callable[[], bool]) -> None:
        super().__init__(inner, faults)
        self._is_full = is_full

    def write(self, batch: Batch, *, makes_room: bool = False) -> None:
        if self._is_full():
            raise DiskFullError("the volume is full")
        super().write(batch, makes_room=makes_room)


async def test_a_full_volume_takes_no_new_partition_that_a_restart_would_miss(
    tmp_path: Path,
) -> None:
    """The pod does not keep the assignment, or the next start would expect its rows."""
    rocksdb, faults, full = open_rocksdb(), Faults(), True

    def open_engine(path: Path) -> Engine:
        return FullWhenTold(rocksdb(path), faults, lambda: full)

    for _ in range(2):
        with pytest.raises(DiskFullError):
            async with write_cluster(tmp_path, pods=1, open_engine=open_engine):
                pass
    full = False
    async with write_cluster(tmp_path, pods=1, open_engine=open_engine) as cluster:
        await write(cluster, 1, ROWS)
        await cluster.stop_pod(0)
        held = await cluster.start_pod(0)
        assert not held.pod.report().lost


async def test_a_format_change_that_a_full_volume_refuses_is_not_reported_as_a_migration(
    tmp_path: Path,
) -> None:
    """The other partitions have prepared their disks; the empty families are removed at once."""
    memory, faults, full = open_memory(), Faults(), False

    def open_engine(path: Path) -> Engine:
        return FullWhenTold(memory(path), faults, lambda: full and path.name == "2")

    async with write_cluster(
        tmp_path, pods=1, partitions=PARTITIONS, open_engine=open_engine
    ) as cluster:
        await write(cluster, 1, ROWS)
        pod = cluster.pods[0].pod
        migrating = asyncio.create_task(Migrator(pod, Settings()).run())
        await wait_until_async(lambda: not pod.rows_to_move.is_set())
        full = True
        definition = replace(cluster.definition, format="TimestampedWithHeaders")
        with pytest.raises(DiskFullError):
            await pod.assign(replace(cluster.assignment, definition=definition))
        await wait_until_async(lambda: not any(one.migration for one in pod.report().replicas))
        migrating.cancel()
        full = False


@pytest.mark.parametrize("rows_count", [1, 1200])
async def test_a_restart_on_a_full_volume_serves_whole_partitions(
    tmp_path: Path, rows_count: int
) -> None:
    """A partition with a part of the slices of a commit shows nothing until it has them all."""
    memory, faults, full = open_memory(), Faults(), False

    def open_engine(path: Path) -> Engine:
        return FullWhenTold(memory(path), faults, lambda: full)

    rows = {b"k%d" % number: b"v" for number in range(rows_count)}
    async with write_cluster(
        tmp_path, pods=1, partitions=PARTITIONS, open_engine=open_engine
    ) as cluster:
        writer = await write(cluster, 1, rows)
        epoch = await writer.epoch("run-2")
        newer = dict.fromkeys(rows, b"w")
        chunks = await stage(writer, epoch, 1, newer)
        replica = cluster.replica(0)
        async with AsyncExitStack() as held_up:
            if rows_count == 1:  # A change of format holds the commit up before its only slice.
                await held_up.enter_async_context(
                    replica.format_change.redefining(replica.definition)
                )
            committing = asyncio.ensure_future(writer.commit(epoch, 1, chunks))
            for _ in range(1_000_000):
                is_applying = replica.engine.get(META, APPLYING) is not None
                if is_applying or (rows_count == 1 and replica.machine.participant.sequence == 2):
                    break
                await asyncio.sleep(0)
            full = True
        await wait_until_async(lambda: replica.failure)
        committing.cancel()
        await cluster.stop_pod(0)
        held = await cluster.start_pod(0)
        assert sorted(held.pod.registry.replicas) == [0, 1, 2]
        for partition, replica in held.pod.registry.replicas.items():
            is_whole = replica.engine.get(META, APPLYING) is None
            assert (replica.view is not None) == is_whole
            if is_whole:
                assert set(cluster.rows(partition).values()) in ({b"v"}, {b"w"})
        assert any(
            isinstance(one.failure, DiskFullError) for one in held.pod.registry.replicas.values()
        )
        full = False
        held.coordination.driver.go_on()
        await wait_until_async(
            lambda: all(
                one.view is not None and one.view.sequence == 2
                for one in held.pod.registry.replicas.values()
            )
        )
        assert all(cluster.rows(partition) == newer for partition in range(PARTITIONS))


# --- Write-ahead logs


def cut_to_half(log: Path) -> None:
    log.write_bytes(log.read_bytes()[: log.stat().st_size // 2])


def flip_in_the_last_record(log: Path) -> None:
    data = bytearray(log.read_bytes())
    data[-3] ^= 0x01
    log.write_bytes(data)


@pytest.mark.parametrize("spoil", [cut_to_half, Path.unlink, flip_in_the_last_record])
async def test_a_write_ahead_log_that_lost_synced_rows_is_damage(
    tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    async with write_cluster(
        tmp_path, pods=1, partitions=PARTITIONS, open_engine=open_rocksdb()
    ) as cluster:
        await write(cluster, 3, ROWS)
        await cluster.pods[0].coordination.driver.finish()
        await cluster.pods[0].pod.marks.round(cluster.definition.store_id)
        database = tmp_path / "0" / "partitions" / str(SPOILT)
        shutil.copytree(database, tmp_path / "copy")  # The files at a power loss.
        await cluster.stop_pod(0)
        shutil.rmtree(database)
        (tmp_path / "copy").rename(database)
        number, size = newest_log(database)
        assert size > 0
        spoil(database / f"{number:06}.log")
        for _ in range(2):  # For the second start, RocksDB has made a new log.
            await cluster.start_pod(0)
            await assert_only_one_is_lost(cluster, "partition 1 of pod words-0 is lost")
            await cluster.stop_pod(0)


async def test_after_a_clean_stop_no_partition_is_lost(tmp_path: Path) -> None:
    async with write_cluster(
        tmp_path, pods=1, partitions=PARTITIONS, open_engine=open_rocksdb()
    ) as cluster:
        await write(cluster, 3, ROWS)
        for _ in range(3):
            await cluster.stop_pod(0)
            held = await cluster.start_pod(0)
            assert sorted(held.pod.registry.replicas) == [0, 1, 2]


async def test_older_files_of_one_partition_are_damage_and_its_newer_files_are_accepted(
    tmp_path: Path,
) -> None:
    async with write_cluster(
        tmp_path, pods=1, partitions=PARTITIONS, open_engine=open_rocksdb()
    ) as cluster:
        writer = await write(cluster, 1, {b"k": b"old"})
        await cluster.stop_pod(0)
        database = tmp_path / "0" / "partitions" / str(SPOILT)
        shutil.copytree(database, tmp_path / "older")
        await cluster.start_pod(0)
        epoch = await cluster.writer().epoch("run-2")
        chunks = await stage(cluster.writer(), epoch, 1, ROWS)
        (await cluster.writer().commit(epoch, 1, chunks)).json()
        await cluster.stop_pod(0)
        database.rename(tmp_path / "newer")
        (tmp_path / "older").rename(database)
        await cluster.start_pod(0)
        await assert_only_one_is_lost(cluster, "partition 1 of pod words-0 is lost")
        await cluster.stop_pod(0)
        shutil.rmtree(database)
        (tmp_path / "newer").rename(database)
        await cluster.start_pod(0)
        assert cluster.rows(SPOILT) == ROWS
        assert writer


def test_a_hole_in_a_write_ahead_log_is_damage_and_salvage_keeps_the_entries_before_it(
    tmp_path: Path,
) -> None:
    """Pages reach a disk in any order: after a power loss, unsynced pages may be zeros."""
    budget = MemoryBudget.of(cache_bytes=1024 * 1024, write_buffer_bytes=8 * 1024 * 1024)
    path = tmp_path / "db"
    engine = RocksDbEngine(path, budget)
    for number in range(400):
        batch = engine.batch()
        batch.put("changelog", encode_offset(number), b"x" * 1000)
        engine.write(batch)
    shutil.copytree(path, tmp_path / "lost")
    engine.close()
    number, _ = newest_log(tmp_path / "lost")
    log = tmp_path / "lost" / f"{number:06}.log"
    data = bytearray(log.read_bytes())
    data[200_000:204_096] = bytes(4096)
    log.write_bytes(data)
    with pytest.raises(CorruptionError):
        RocksDbEngine(tmp_path / "lost", budget)
    salvaged = RocksDbEngine(tmp_path / "lost", budget, salvages=True)
    offsets = [key for key, _ in salvaged.scan("changelog")]
    assert offsets == [encode_offset(number) for number in range(len(offsets))]
    assert 150 < len(offsets) < 250
    salvaged.close()


async def test_a_volume_of_another_pod_is_refused(tmp_path: Path) -> None:
    async with write_cluster(tmp_path, pods=1, partitions=1) as cluster:
        await write_one(cluster)
        await cluster.stop_pod(0)
        open_engine = cluster.open_engine
        engine = open_engine(tmp_path / "0" / "partitions" / "0")
        batch = engine.batch()
        batch.put("meta", b"ordinal", str(Ordinal(5)).encode())
        engine.write(batch)
        held = await cluster.start_pod(0)
        with pytest.raises(CorruptionError, match="made by pod 5, not by pod 0"):
            held.pod.registry.local(PartitionId(0))


async def write_one(cluster: WriteCluster) -> None:
    writer = cluster.writer()
    epoch = await writer.epoch()
    chunks = await writer.stage(epoch, 0, f"{epoch}.t.0", {0: ROWS})
    (await writer.commit(epoch, 0, chunks)).json()
