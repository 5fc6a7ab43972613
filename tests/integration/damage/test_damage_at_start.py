"""If the files of a partition cannot be opened, its pod serves the other partitions."""

import errno
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from qss_core.errors import CorruptionError, NotReadyError, StoreError
from qss_core.model import PartitionId
from qss_core.wire.losses import LostReplica
from qss_core.wire.messages import decode, encode
from qss_store.replicas.opening.reopening import Reopening
from qss_store.replicas.opening.unopened_partitions import Unopened
from qss_store.storage.engine import Engine
from qss_store.storage.rocksdb.database import RocksDbEngine
from qss_store.storage.rocksdb.memory_budget import MemoryBudget
from qss_testing.faults.rolled_back import accept, cluster_of, losses, values, write
from qss_testing.pods.stores import configuration
from qss_testing.pods.write_cluster import WriteCluster
from qss_testing.waiting import wait_until_async

SPOILT = 1


def no_manifest(database: Path) -> None:
    next(database.glob("MANIFEST-*")).unlink()


def no_current(database: Path) -> None:
    (database / "CURRENT").unlink()


def empty_current(database: Path) -> None:
    (database / "CURRENT").write_bytes(b"")


def garbage_in_current(database: Path) -> None:
    (database / "CURRENT").write_bytes(b"\xff\xfe\x00garbage")


def current_of_another(database: Path) -> None:
    (database / "CURRENT").write_bytes(b"MANIFEST-000999\n")


def unreadable_table(database: Path) -> None:
    """Reading a directory fails like a bad sector: RocksDB reports an IO error."""
    table = next(database.glob("*.sst"))
    table.unlink()
    table.mkdir()


def no_directory(database: Path) -> None:
    shutil.rmtree(database)
    database.write_bytes(b"a file")


@pytest.mark.parametrize(
    "spoil",
    [
        no_manifest,
        no_current,
        empty_current,
        garbage_in_current,
        current_of_another,
        unreadable_table,
        no_directory,
    ],
)
async def test_damaged_files_lose_only_their_partition_and_the_loss_can_be_accepted(
    tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    async with cluster_of(tmp_path, pods=1) as cluster:
        (await write(cluster, 0, b"1")).json()
        await cluster.pods[0].coordination.driver.finish()
        await cluster.stop_pod(0)
        flush(database_of(tmp_path))
        spoil(database_of(tmp_path))
        held = await cluster.start_pod(0)
        assert held.pod.is_ready
        assert cluster.rows(0) == cluster.rows(2) == {b"k": b"1"}
        with pytest.raises(CorruptionError, match="partition 1 of pod words-0 is lost"):
            held.pod.registry.local(SPOILT)
        (lost,) = held.pod.report().lost
        assert (lost.partition, lost.is_waiting) == (SPOILT, False)
        (await accept(cluster, SPOILT)).json()
        assert held.pod.report().lost == ()
        assert losses(cluster, SPOILT) == [(1, 1, 1)]
        (await write(cluster, 1, b"2", "run-2")).json()
        assert values(cluster) == [b"2"] * 3


async def test_without_a_kept_assignment_damaged_files_lose_their_partition_alone(
    tmp_path: Path,
) -> None:
    """The pod ended between the first writes of its databases and the sync of its assignment."""
    async with cluster_of(tmp_path, pods=1) as cluster:
        await cluster.stop_pod(0)
        flush(database_of(tmp_path))
        no_manifest(database_of(tmp_path))
        (tmp_path / "0" / "assignment.json").unlink()
        held = await cluster.start_pod(0)
        await cluster.assign(cluster.configurations)
        (lost,) = held.pod.report().lost
        assert (lost.partition, lost.is_waiting) == (SPOILT, False)
        assert sorted(held.pod.registry.replicas) == [0, 2]
        (await accept(cluster, SPOILT)).json()
        (await write(cluster, 0, b"1")).json()
        assert values(cluster) == [b"1"] * 3


def database_of(volume: Path) -> Path:
    return volume / "0" / "partitions" / str(SPOILT)


def flush(database: Path) -> None:
    """Writes the rows of the write-ahead log into a table."""
    engine = RocksDbEngine(database, budget())
    engine.flush()
    engine.close()


def budget() -> MemoryBudget:
    return MemoryBudget.of(cache_bytes=1024 * 1024, write_buffer_bytes=8 * 1024 * 1024)


def test_rows_of_a_write_ahead_log_alone_are_not_deleted_where_current_is_gone(
    tmp_path: Path,
) -> None:
    engine = RocksDbEngine(tmp_path / "db", budget())
    batch = engine.batch()
    batch.put("meta", b"k", b"v")
    engine.write(batch)
    engine.sync()
    # A copy of the files, as a loss of power leaves them.
    shutil.copytree(tmp_path / "db", tmp_path / "lost")
    engine.close()
    current = (tmp_path / "lost" / "CURRENT").rename(tmp_path / "CURRENT")
    with pytest.raises(CorruptionError, match="no file CURRENT"):
        RocksDbEngine(tmp_path / "lost", budget())
    current.rename(tmp_path / "lost" / "CURRENT")
    engine = RocksDbEngine(tmp_path / "lost", budget())
    assert engine.get("meta", b"k") == b"v"
    engine.close()


# --- Errors of the operating system


async def started_with(cluster: WriteCluster, error: Exception) -> Callable[[], None]:
    """Starts the pod while its second partition meets an error; returns what ends the error."""
    open_engine, fails = cluster.open_engine, True

    def open_or_fail(path: Path) -> Engine:
        if fails and path.name == str(SPOILT):
            raise error
        return open_engine(path)

    def end() -> None:
        nonlocal fails
        fails = False

    await cluster.stop_pod(0)
    cluster.open_engine = open_or_fail
    held = await cluster.start_pod(0)
    assert held.pod.is_ready
    assert cluster.rows(0) == cluster.rows(2) == {b"k": b"1"}
    return end


async def test_a_disk_that_cannot_be_read_loses_only_its_partition(tmp_path: Path) -> None:
    async with cluster_of(tmp_path, pods=1) as cluster:
        (await write(cluster, 0, b"1")).json()
        await started_with(cluster, OSError(errno.EIO, "Input/output error"))
        (lost,) = cluster.pods[0].pod.report().lost
        assert (lost.partition, lost.is_waiting) == (SPOILT, False)


@pytest.mark.parametrize(
    ("error", "is_waiting"),
    [(OSError(errno.EIO, "Input/output error"), False), (StoreError("a file is locked"), True)],
)
async def test_the_report_has_the_configuration_of_a_partition_that_cannot_be_opened(
    tmp_path: Path, error: Exception, *, is_waiting: bool
) -> None:
    """A store without a status is placed again by what its volumes say."""
    async with cluster_of(tmp_path, pods=1) as cluster:
        (await write(cluster, 0, b"1")).json()
        await cluster.assign([configuration(number, 0, epoch=4 + number) for number in range(3)])
        before = cluster.configurations[SPOILT]
        await started_with(cluster, error)
        (lost,) = cluster.pods[0].pod.report().lost
        assert (lost.is_waiting, lost.configuration) == (is_waiting, before)
        await cluster.assign([configuration(number, 0, epoch=8) for number in range(3)])
        (lost,) = cluster.pods[0].pod.report().lost
        assert lost.configuration == configuration(SPOILT, 0, epoch=8)
        assert decode(encode(lost), LostReplica) == lost


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EMFILE, "Too many open files"),
        StoreError("RocksDB failed: a file is locked"),
        RuntimeError("can't start new thread"),
        MemoryError(),
    ],
)
async def test_what_passes_by_itself_is_tried_again(tmp_path: Path, error: Exception) -> None:
    async with cluster_of(tmp_path, pods=1) as cluster:
        (await write(cluster, 0, b"1")).json()
        ends = await started_with(cluster, error)
        pod = cluster.pods[0].pod
        (lost,) = pod.report().lost
        assert (lost.partition, lost.is_waiting) == (SPOILT, True)
        with pytest.raises(NotReadyError):  # Another replica may be asked.
            pod.registry.local(SPOILT)
        ends()
        await wait_until_async(lambda: PartitionId(SPOILT) in pod.registry.replicas)
        assert pod.report().lost == ()
        assert values(cluster) == [b"1"] * 3


async def test_a_partition_that_waits_has_no_lost_one_opened_again(tmp_path: Path) -> None:
    async with cluster_of(tmp_path, pods=1) as cluster:
        (await write(cluster, 0, b"1")).json()
        open_engine, opened, fails = cluster.open_engine, Counter[str](), True

        def open_or_fail(path: Path) -> Engine:
            opened[path.name] += 1
            if path.name == "2":
                raise CorruptionError("Corruption: a block")
            if path.name == str(SPOILT) and fails:
                raise OSError(errno.EMFILE, "Too many open files")
            engine: Engine = open_engine(path)
            return engine

        await cluster.stop_pod(0)
        cluster.open_engine = open_or_fail
        pod = (await cluster.start_pod(0)).pod
        await wait_until_async(lambda: opened[str(SPOILT)] == 2)
        fails = False
        await wait_until_async(lambda: PartitionId(SPOILT) in pod.registry.replicas)
        assert opened == {"0": 1, str(SPOILT): 3, "2": 1}


async def test_tries_to_open_go_on_after_an_error_that_nobody_knows() -> None:
    unopened, tries = Unopened(), 0

    async def assign() -> None:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise ValueError("odd")
        unopened.opened(PartitionId(0))

    unopened.wait(PartitionId(0), StoreError("later"))
    Reopening(unopened, assign).begin()
    await wait_until_async(lambda: not unopened.waiting)
    assert tries == 2


def test_a_lock_of_another_process_is_no_damage(tmp_path: Path) -> None:
    engine = RocksDbEngine(tmp_path / "db", budget())
    with pytest.raises(StoreError) as refused:
        RocksDbEngine(tmp_path / "db", budget())
    assert not isinstance(refused.value, CorruptionError)
    engine.close()


# --- The stop


async def test_a_replica_that_does_not_close_well_keeps_no_other_from_being_closed(
    tmp_path: Path,
) -> None:
    async with cluster_of(tmp_path, pods=1) as cluster:
        (await write(cluster, 0, b"1")).json()
        closed, pod = [], cluster.pods[0].pod
        for number, replica in pod.registry.replicas.items():
            engine, close = replica.engine, replica.engine.close

            def closing(number: int = number, close: Callable[[], None] = close) -> None:
                close()
                closed.append(number)
                if number == 0:
                    raise OSError(errno.EIO, "Input/output error")

            engine.close = closing
        await cluster.stop_pod(0)
        assert closed == [0, 1, 2]
        await cluster.start_pod(0)
        assert values(cluster) == [b"1"] * 3
