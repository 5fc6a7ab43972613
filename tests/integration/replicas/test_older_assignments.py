"""A partition that has moved does not come back by an older assignment, or by an older volume."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from qss_core.errors import NotActiveError, StaleEpochError
from qss_core.model import Epoch, PartitionId, StoreSettings
from qss_core.wire.retirement import RetireRequest
from qss_testing.pods.stores import configuration, open_rocksdb
from qss_testing.pods.write_cluster import WriteCluster, write_cluster
from qss_testing.waiting import wait_until_async

P0 = PartitionId(0)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[WriteCluster]:
    """Two partitions, both on pod 0 alone; partition 0 has a batch."""
    async with write_cluster(tmp_path, pods=2, partitions=2, open_engine=open_rocksdb()) as made:
        await made.assign([configuration(0, 0, epoch=2), configuration(1, 0, epoch=2)])
        await made.until_led()
        await write(made, "run-1", 0, {b"a": b"1"})
        yield made


async def write(cluster: WriteCluster, run: str, batch: int, rows: dict[bytes, bytes]) -> None:
    writer = cluster.writer(cluster.configurations[0].active)
    epoch = await writer.epoch(run)
    chunks = await writer.stage(epoch, batch, f"{epoch}.t.{batch}", {0: rows})
    (await writer.commit(epoch, batch, chunks)).json()


async def move(cluster: WriteCluster) -> None:
    """Moves partition 0 from pod 0 to pod 1, from epoch 2 to epoch 6; its replica on pod 0 stays.

    Partition 1 is led by another epoch, too.
    """
    await cluster.assign([configuration(0, 0, learners=[1], epoch=3), configuration(1, 0, epoch=2)])
    await cluster.until_led()
    await wait_until_async(lambda: 1 in cluster.replica(0).followers.learners.caught_up())
    for epoch, of_zero in (
        (2, configuration(0, 0, standbys=[1], epoch=4)),
        (2, configuration(0, 1, standbys=[0], epoch=5)),
        (3, configuration(0, 1, epoch=6)),
    ):
        await cluster.assign([of_zero, configuration(1, 0, epoch=epoch)])
        await cluster.until_led()


async def retire(cluster: WriteCluster, epoch: int = 6) -> None:
    store_id = cluster.definition.store_id
    request = RetireRequest(store_id=store_id, partition=P0, epoch=Epoch(epoch))
    await cluster.pods[0].pod.retire(request)


async def test_an_older_assignment_makes_no_deleted_replica_anew(cluster: WriteCluster) -> None:
    """An operator that was paused sends what it planned before another one moved the partition."""
    older = cluster.assignment
    await move(cluster)
    await retire(cluster)
    pod = cluster.pods[0].pod
    with pytest.raises(StaleEpochError, match="partition 0 in epoch 2, and this pod knows epoch 6"):
        await pod.assign(older)
    assert P0 not in pod.registry.replicas
    assert not (cluster.volume / "0" / "partitions" / "0").exists()
    await cluster.assign(cluster.configurations)


async def test_an_assignment_of_an_older_spec_is_refused(cluster: WriteCluster) -> None:
    """A deposed operator that sees the API server no more sends the settings that it knows."""
    pod = cluster.pods[0].pod
    edited = replace(cluster.assignment, settings=StoreSettings(changelog_retention_ms=1))
    await pod.assign(replace(edited, generation=3))
    with pytest.raises(StaleEpochError, match="generation 2 of the resource, and this") as refused:
        await pod.assign(replace(cluster.assignment, generation=2))
    # A store on one machine has no API server: a person may have edited its file.
    assert "API server" not in refused.value.message
    assert "If the resource was restored to an older state, restart" in refused.value.message
    assert pod.registry.assignment == edited
    # An operator of an older version names none.
    await pod.assign(replace(cluster.assignment, generation=4))
    await pod.assign(edited)
    assert pod.registry.assignment == edited


async def test_a_newer_epoch_is_taken_with_an_older_spec(cluster: WriteCluster) -> None:
    """The API server was restored to an older state: its operator has seen what the pods hold."""
    pod = cluster.pods[0].pod
    await pod.assign(replace(cluster.assignment, generation=3))
    newer = (configuration(0, 0, epoch=3), configuration(1, 0, epoch=2))
    restored = replace(cluster.assignment, partitions=newer, generation=2)
    await pod.assign(restored)
    await pod.assign(restored)
    assert pod.registry.configuration(0).epoch == 3


async def test_an_assignment_for_an_earlier_process_is_refused(cluster: WriteCluster) -> None:
    """Since then the pod may have got an empty volume, of which the operator does not know."""
    pod = cluster.pods[0].pod
    told = cluster.assignment
    meant = replace(told, incarnation=pod.report().incarnation)
    await pod.assign(meant)
    await cluster.stop_pod(0)
    shutil.rmtree(cluster.volume / "0")
    await cluster.start_pod(0)
    with pytest.raises(StaleEpochError, match="an earlier process of this pod"):
        await cluster.pods[0].pod.assign(meant)
    assert cluster.pods[0].pod.report().store_id is None


async def test_a_replica_is_deleted_only_when_the_pod_has_kept_the_epoch(
    cluster: WriteCluster,
) -> None:
    """Else the pod would forget the epoch with the replica, and take an older assignment."""
    await move(cluster)
    left = cluster.pods[0].pod.registry.replicas[P0]
    left.following.hear(configuration(0, 1, epoch=7))
    with pytest.raises(StaleEpochError, match="has partition 0 in epoch 6: send the assignment"):
        await retire(cluster, 7)
    assert P0 in cluster.pods[0].pod.registry.replicas


async def test_a_volume_of_before_a_move_serves_nothing_once_it_was_compared(
    cluster: WriteCluster, tmp_path: Path
) -> None:
    await cluster.stop_pod(0)
    shutil.copytree(cluster.volume / "0", tmp_path / "copy")
    await cluster.start_pod(0)
    await cluster.until_led()
    await move(cluster)
    await retire(cluster)
    await cluster.stop_pod(0)
    shutil.rmtree(cluster.volume / "0")
    shutil.copytree(tmp_path / "copy", cluster.volume / "0")
    await cluster.start_pod(0)
    came_back = cluster.pods[0].pod.registry.replicas[P0]
    with pytest.raises(NotActiveError):
        came_back.acting.check()
    assert came_back.role is None
    cluster.replica(0).acting.check()
    assert cluster.rows(0) == {b"a": b"1"}


async def test_files_that_do_not_open_hold_up_no_assignment(cluster: WriteCluster) -> None:
    """They are of another pod, on a volume that was mixed up; the learner is copied anew."""
    await cluster.stop_pod(1)
    await cluster.stop_pod(0)
    files = cluster.volume / "0" / "partitions" / "0"
    shutil.copytree(files, cluster.volume / "1" / "partitions" / "0")
    for ordinal in (0, 1):
        await cluster.start_pod(ordinal)
    await cluster.assign([configuration(0, 0, epoch=2), configuration(1, 0, epoch=2)])
    await cluster.assign([configuration(0, 0, learners=[1], epoch=3), configuration(1, 0, epoch=3)])
    await cluster.until_led()
    await wait_until_async(lambda: 1 in cluster.replica(0).followers.learners.caught_up())
    assert cluster.pods[1].pod.report().lost == ()


async def test_a_pod_that_starts_says_how_many_pods_its_kept_assignment_names(
    cluster: WriteCluster,
) -> None:
    """Volumes of the others may exist though the resource, which was made again, has fewer pods."""
    assert cluster.pods[0].pod.report().pods_kept == 0, "it was sent an assignment"
    await cluster.stop_pod(0)
    await cluster.start_pod(0)
    assert cluster.pods[0].pod.report().pods_kept == 2
    await cluster.assign(cluster.configurations)
    assert cluster.pods[0].pod.report().pods_kept == 0
