"""A pod refuses the volume of another store or pod, and leaves the volume unchanged."""

import os
import shutil
import stat
from pathlib import Path

import pytest
from msgspec.structs import replace

from qss_core.errors import CorruptionError
from qss_core.model import PartitionId, StoreDefinition, StoreId
from qss_core.wire.messages import encode
from qss_store.replicas.volume.kept_files import Volume
from qss_store.storage.engine import SyncedFiles
from qss_testing.faults.rolled_back import accept
from qss_testing.pods.stores import make_definition, open_rocksdb
from qss_testing.pods.write_cluster import (
    WriteCluster,
    lead,
    replica_of,
    replicated,
    write_cluster,
)
from qss_testing.waiting import wait_until_async

ROWS = {b"k": b"v"}


async def write(cluster: WriteCluster) -> None:
    writer = cluster.writer()
    epoch = await writer.epoch()
    chunks = await writer.stage(epoch, 0, f"{epoch}.t.0", {0: ROWS})
    (await writer.commit(epoch, 0, chunks)).json()


async def assert_unharmed(cluster: WriteCluster) -> None:
    assert (cluster.rows(0), cluster.rows(1)) == (ROWS, {})
    epoch = await cluster.writer().epoch("run-2")
    (await cluster.writer().commit(epoch, 1, {})).json()


@pytest.fixture
def kept_names(monkeypatch: pytest.MonkeyPatch) -> dict[int, set[str]]:
    """The names that each directory had at its last sync, by the directory's inode."""
    kept: dict[int, set[str]] = {}
    fsync = os.fsync

    def noted(file: int) -> None:
        fsync(file)
        found = os.fstat(file)
        if stat.S_ISDIR(found.st_mode):
            kept[found.st_ino] = set(os.listdir(file))

    monkeypatch.setattr(os, "fsync", noted)
    return kept


@pytest.mark.parametrize("is_accepted", [False, True])
async def test_the_directory_of_a_new_database_survives_a_power_loss(
    tmp_path: Path, kept_names: dict[int, set[str]], *, is_accepted: bool
) -> None:
    """It is new where the partition is, and after a person accepts the loss of the old one."""
    volume, partitions = tmp_path / "0", tmp_path / "0" / "partitions"
    async with write_cluster(tmp_path, pods=1, partitions=1, open_engine=open_rocksdb()) as cluster:
        if is_accepted:
            await cluster.stop_pod(0)
            shutil.rmtree(partitions)
            await cluster.start_pod(0)
            kept_names.clear()
            (await accept(cluster, 0)).json()
        assert "0" in kept_names[partitions.stat().st_ino]
        if not is_accepted:
            assert "partitions" in kept_names[volume.stat().st_ino]


async def test_the_directory_of_a_copied_database_survives_a_power_loss(
    tmp_path: Path, kept_names: dict[int, set[str]]
) -> None:
    async with replicated(tmp_path, lease_ms=1000) as cluster:
        await write(cluster)
        await lead(cluster, 0, 3, learners=[1])
        active, learner = replica_of(cluster, 0), replica_of(cluster, 1)
        await wait_until_async(lambda: learner.changelog.durable_end == active.log.end)
        kept_names.clear()
        learner.fail(CorruptionError("a block is damaged"))
        replicas = cluster.pods[1].pod.registry.replicas
        await wait_until_async(lambda: replicas.get(PartitionId(0), learner) is not learner)
        partitions = tmp_path / "1" / "partitions"
        assert "0" in kept_names[partitions.stat().st_ino]


async def test_an_assignment_of_another_store_id_is_refused(tmp_path: Path) -> None:
    async with write_cluster(tmp_path, pods=1, partitions=2, open_engine=open_rocksdb()) as cluster:
        await write(cluster)
        mine, cluster.definition = cluster.definition, other_definition()
        internal = cluster.pods[0].internal
        body = encode(cluster.assignment)
        refused = await internal.send("PUT", "/control/assignment", body, {})
        problem = refused.problem(409, "WRONG_STORE")
        assert problem["details"]["store_id"] == mine.store_id
        cluster.definition = mine
        await assert_unharmed(cluster)


async def test_replicas_of_another_store_id_are_not_opened(tmp_path: Path) -> None:
    async with write_cluster(tmp_path, pods=1, partitions=2, open_engine=open_rocksdb()) as cluster:
        await write(cluster)
        await cluster.stop_pod(0)
        kept = tmp_path / "0" / "assignment.json"
        aside = kept.rename(tmp_path / "aside.json")
        mine, cluster.definition = cluster.definition, other_definition()
        held = await cluster.start_pod(0)
        refused = await held.internal.send(
            "PUT", "/control/assignment", encode(cluster.assignment), {}
        )
        assert "mixed up" in refused.problem(500, "STORE_EXCEPTION")["detail"]
        assert not held.pod.is_ready
        await cluster.stop_pod(0)
        cluster.definition = mine
        aside.rename(kept)
        await cluster.start_pod(0)
        await assert_unharmed(cluster)


async def test_partition_directories_that_were_swapped_are_refused(tmp_path: Path) -> None:
    async with write_cluster(tmp_path, pods=1, partitions=2, open_engine=open_rocksdb()) as cluster:
        await write(cluster)
        await cluster.stop_pod(0)
        swap(tmp_path / "0" / "partitions")
        held = await cluster.start_pod(0)
        for partition in (0, 1):
            with pytest.raises(CorruptionError, match="mixed up"):
                held.pod.registry.local(partition)
        assert [one.is_misplaced for one in held.pod.report().lost] == [True, True]
        await cluster.stop_pod(0)
        swap(tmp_path / "0" / "partitions")
        await cluster.start_pod(0)
        await assert_unharmed(cluster)


async def test_swapped_directories_of_a_killed_pod_are_refused_whose_logs_fit_no_mark(
    tmp_path: Path,
) -> None:
    """The shorter log looked cut, and its advice was to accept a loss of rows that were whole."""
    async with write_cluster(tmp_path, pods=1, partitions=2, open_engine=open_rocksdb()) as cluster:
        await write(cluster)
        await cluster.stop_pod(0)
        swap(tmp_path / "0" / "partitions")
        volume, store_id = Volume(tmp_path / "0"), cluster.definition.store_id
        killed = SyncedFiles(log_number=10**6, log_bytes=1, writes=1)
        marks = {
            number: replace(mark, files=killed) for number, mark in volume.marks(store_id).items()
        }
        assert sorted(marks) == [0, 1]
        volume.keep_marks(store_id, marks)
        held_pod = await cluster.start_pod(0)
        for partition in (0, 1):
            with pytest.raises(CorruptionError, match="mixed up"):
                held_pod.pod.registry.local(partition)
        assert [one.is_misplaced for one in held_pod.pod.report().lost] == [True, True]
        assert not list((tmp_path / "0" / "partitions").glob("*.looked-at"))


async def test_the_volume_of_another_pod_is_reported_with_that_pod(tmp_path: Path) -> None:
    async with write_cluster(tmp_path, pods=2, partitions=4, open_engine=open_rocksdb()) as cluster:
        await write(cluster)
        for pod in (0, 1):
            await cluster.stop_pod(pod)
        for source, target in (("0", "aside"), ("1", "0"), ("aside", "1")):
            (tmp_path / source).rename(tmp_path / target)
        for pod, other, theirs in ((0, 1, "1, 3"), (1, 0, "0, 2")):
            said = tmp_path / str(pod) / "pod-ordinal"
            assert said.read_text() == str(other)
            said.unlink()  # As on a volume of an older version.
            held = await cluster.start_pod(pod)
            assert all(one.is_misplaced for one in held.pod.report().lost)
            told = [one.error for one in held.pod.report().lost]
            why = f"this is the volume of pod {other}: it holds that pod's partitions ({theirs}). "
            assert len(told) == 2
            assert all(error.startswith(why) for error in told), told
            assert said.read_text() == str(other)
            await cluster.stop_pod(pod)
        shutil.rmtree(tmp_path / "0" / "partitions" / "3")
        (tmp_path / "0").rename(tmp_path / "aside")
        (tmp_path / "1").rename(tmp_path / "0")
        (tmp_path / "aside").rename(tmp_path / "1")
        held = await cluster.start_pod(1)
        assert [(one.error, one.is_misplaced) for one in held.pod.report().lost] == [
            ("its rows are not on the volume any more: bring them back", False)
        ], "the other partition is on the volume"


async def test_a_volume_is_of_the_pod_that_goes_on_with_it_after_an_accepted_loss(
    tmp_path: Path,
) -> None:
    """Its new database takes batches: to give the volume to the pod before would lose them."""
    async with write_cluster(tmp_path, pods=2, partitions=2, open_engine=open_rocksdb()) as cluster:
        await write(cluster)
        for pod in (0, 1):
            await cluster.stop_pod(pod)
        for source, target in (("0", "aside"), ("1", "0"), ("aside", "1")):
            (tmp_path / source).rename(tmp_path / target)
        for pod in (0, 1):
            await cluster.start_pod(pod)
        (await accept(cluster, 0)).json()
        assert [(tmp_path / pod / "pod-ordinal").read_text() for pod in ("0", "1")] == ["0", "0"]


@pytest.mark.parametrize("loss", ["directory", "current", "manifest", "all"])
async def test_a_lost_partition_is_reported_and_not_made_anew(tmp_path: Path, loss: str) -> None:
    async with write_cluster(tmp_path, pods=1, partitions=2, open_engine=open_rocksdb()) as cluster:
        await write(cluster)
        await cluster.stop_pod(0)
        partitions = tmp_path / "0" / "partitions"
        lost = spoil(partitions, loss)
        tables = [*(partitions / "0").glob("*.sst")]
        held = await cluster.start_pod(0)
        assert held.pod.is_ready  # The other partitions are served.
        reported = {one.configuration.partition for one in held.pod.report().replicas}
        assert reported.isdisjoint(lost)
        assert len(held.pod.registry.replicas) == 2 - len(lost)
        with pytest.raises(CorruptionError, match="partition 0 of pod words-0 is lost"):
            held.pod.registry.local(0)
        told = await held.internal.send(
            "PUT", "/control/assignment", encode(cluster.assignment), {}
        )
        told.json()  # An assignment does not make the lost partition anew.
        assert len(held.pod.registry.replicas) == 2 - len(lost)
        assert all(table.exists() for table in tables)
        assert (partitions / "0").exists() == (loss in ("current", "manifest"))


def spoil(partitions: Path, loss: str) -> set[int]:
    """Removes files; returns the partitions that are lost by that."""
    first = partitions / "0"
    match loss:
        case "directory":
            shutil.rmtree(first)
        case "current":
            (first / "CURRENT").unlink()
            (first / "000099.sst").write_bytes(b"rows")
        case "manifest":
            (manifest,) = first.glob("MANIFEST-*")
            manifest.write_bytes(manifest.read_bytes()[:20])
        case _:
            shutil.rmtree(partitions, ignore_errors=True)
            return {0, 1}
    return {0}


def other_definition() -> StoreDefinition:
    return make_definition(2, store_id=StoreId("store-2"))


def swap(partitions: Path) -> None:
    (partitions / "0").rename(partitions / "aside")
    (partitions / "1").rename(partitions / "0")
    (partitions / "aside").rename(partitions / "1")
