"""A replica that its partition leaves out is kept until the operator asks for its end."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from qss_client.clock import SystemClock
from qss_core.errors import (
    CorruptionError,
    DiskFullError,
    StaleEpochError,
    StoreError,
    WrongStoreError,
)
from qss_core.model import Epoch, Ordinal, PartitionId, StoreId
from qss_core.wire.retirement import RetireRequest
from qss_store.replicas.pod import Pod
from qss_store.replicas.pod_context import PodConfig
from qss_store.runtime.metrics import Metrics
from qss_store.storage.engine import Engine
from qss_testing.pods.stores import configuration, open_rocksdb
from qss_testing.pods.write_cluster import WriteCluster, write_cluster
from qss_testing.waiting import wait_until_async

P0 = PartitionId(0)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[WriteCluster]:
    """One partition with a batch: its active on pod 0, and a standby on pod 1."""
    async with write_cluster(tmp_path, pods=2, partitions=1, open_engine=open_rocksdb()) as made:
        await made.assign([configuration(0, 0, standbys=[1], epoch=2)])
        await made.until_led()
        writer = made.writer(0)
        epoch = await writer.epoch()
        chunks = await writer.stage(epoch, 0, f"{epoch}.t.0", {0: {b"a": b"1"}})
        (await writer.commit(epoch, 0, chunks)).json()
        yield made


def request_of(cluster: WriteCluster, epoch: int = 3) -> RetireRequest:
    store_id = cluster.assignment.definition.store_id
    return RetireRequest(store_id=store_id, partition=P0, epoch=Epoch(epoch))


def database(cluster: WriteCluster) -> Path:
    return cluster.volume / "1" / "partitions" / "0"


async def test_a_replica_that_is_left_out_is_deleted_when_it_is_asked_for(
    cluster: WriteCluster, caplog: pytest.LogCaptureFixture
) -> None:
    pod = cluster.pods[1].pod
    with pytest.raises(StaleEpochError, match="is in epoch 2"):
        await pod.retire(request_of(cluster, 2))
    await cluster.assign([configuration(0, 0, epoch=3)])
    assert database(cluster).exists()
    for epoch in (2, 4):
        with pytest.raises(StaleEpochError, match="is in epoch 3"):
            await pod.retire(request_of(cluster, epoch))
    other = RetireRequest(store_id=StoreId("other"), partition=P0, epoch=Epoch(3))
    with pytest.raises(WrongStoreError):
        await pod.retire(other)
    assert [one.configuration.epoch for one in pod.report().replicas] == [3]
    for _ in "twice":
        await pod.retire(request_of(cluster))
        assert pod.report().replicas == ()
        assert list(database(cluster).parent.iterdir()) == []
    assert [one.getMessage() for one in caplog.records if one.levelname == "ERROR"] == []


async def test_an_active_is_not_deleted(cluster: WriteCluster) -> None:
    with pytest.raises(StaleEpochError):
        await cluster.pods[0].pod.retire(request_of(cluster, 2))
    assert len(cluster.rows(0)) == 1


async def test_a_pod_that_was_down_reports_what_is_left_on_its_volume(
    cluster: WriteCluster,
) -> None:
    await cluster.stop_pod(1)
    await cluster.assign([configuration(0, 0, epoch=3)])
    await cluster.start_pod(1)
    await cluster.assign([configuration(0, 0, epoch=3)])
    pod = cluster.pods[1].pod
    assert [one.configuration.epoch for one in pod.report().replicas] == [3]
    await pod.retire(request_of(cluster))
    assert not database(cluster).exists()


async def test_a_deleted_replica_is_no_lost_one_when_the_partition_comes_back(
    cluster: WriteCluster,
) -> None:
    """The sync mark of a deleted database would say that the new one lacks entries."""
    await cluster.stop_pod(1)  # It writes its marks.
    await cluster.start_pod(1)
    await cluster.assign([configuration(0, 0, epoch=3)])
    await cluster.pods[1].pod.retire(request_of(cluster))
    await cluster.stop_pod(0)  # The new replica stays empty.
    await cluster.assign([configuration(0, 0, learners=[1], epoch=4)])
    await cluster.stop_pod(1)
    await cluster.start_pod(1)
    report = cluster.pods[1].pod.report()
    assert report.lost == ()
    assert [one.configuration.epoch for one in report.replicas] == [4]


async def test_a_replica_that_is_left_is_reported_while_it_cannot_be_opened(
    tmp_path: Path,
) -> None:
    """Taken for deleted, it would come back as a standby with its own rows."""
    real, full = open_rocksdb(), False

    def open_engine(path: Path) -> Engine:
        if full:
            raise DiskFullError("the volume is full")
        return real(path)

    async with write_cluster(tmp_path, pods=2, partitions=1, open_engine=open_engine) as cluster:
        await cluster.assign([configuration(0, 0, standbys=[1], epoch=2)])
        await cluster.until_led()
        await cluster.assign([configuration(0, 0, epoch=3)])
        await cluster.stop_pod(1)
        full = True
        await cluster.start_pod(1)
        pod = cluster.pods[1].pod
        (lost,) = pod.report().lost
        assert (lost.partition, lost.is_waiting, lost.error) == (P0, True, "the volume is full")
        assert pod.report().ready
        full = False
        await wait_until_async(lambda: not pod.report().lost)
        assert [one.configuration.epoch for one in pod.report().replicas] == [3]
        await pod.retire(request_of(cluster))
        assert pod.report().replicas == ()
        assert not database(cluster).exists()


async def test_a_replica_that_was_never_made_is_not_waited_for_once_it_is_left_out(
    tmp_path: Path,
) -> None:
    """The operator would wait for its end, and no pod could be removed."""
    real = open_rocksdb()

    def open_engine(path: Path) -> Engine:
        if path.parts[-3] == "1":
            raise DiskFullError("the volume is full")
        return real(path)

    async with write_cluster(tmp_path, pods=2, partitions=1, open_engine=open_engine) as cluster:
        await cluster.assign([configuration(0, 0, learners=[1], epoch=2)])
        pod = cluster.pods[1].pod
        assert [lost.is_waiting for lost in pod.report().lost] == [True]
        assert not database(cluster).exists()
        await cluster.assign([configuration(0, 0, epoch=3)])
        assert pod.report().lost == ()


async def test_a_replica_that_was_kept_is_opened_when_it_has_waited_for_room(
    tmp_path: Path,
) -> None:
    """It was damaged when it was left, then assigned again on a full disk, and left again."""
    real = open_rocksdb()
    errors: list[StoreError] = []

    def open_engine(path: Path) -> Engine:
        if errors and path.parts[-3] == "1":
            raise errors[0]
        return real(path)

    async with write_cluster(tmp_path, pods=2, partitions=1, open_engine=open_engine) as cluster:
        await cluster.assign([configuration(0, 0, standbys=[1], epoch=2)])
        await cluster.until_led()
        await cluster.assign([configuration(0, 0, epoch=3)])
        await cluster.stop_pod(1)
        errors[:] = [CorruptionError("a block is damaged")]
        await cluster.start_pod(1)
        pod = cluster.pods[1].pod
        assert pod.report().lost == ()
        errors[:] = [DiskFullError("the volume is full")]
        await cluster.assign([configuration(0, 0, learners=[1], epoch=4)])
        await cluster.assign([configuration(0, 0, epoch=5)])
        assert [lost.is_waiting for lost in pod.report().lost] == [True]
        errors.clear()
        await wait_until_async(lambda: not pod.report().lost)
        assert [one.configuration.epoch for one in pod.report().replicas] == [5]


async def test_a_replica_that_is_left_is_reported_before_the_pod_has_opened_it(
    cluster: WriteCluster,
) -> None:
    await cluster.assign([configuration(0, 0, epoch=3)])
    await cluster.stop_pod(1)
    config = PodConfig(
        store=cluster.definition.name,
        ordinal=Ordinal(1),
        directory=cluster.volume / "1",
        incarnation="later",
    )
    pod = Pod(config, open_rocksdb(), SystemClock(), Metrics())
    pod.remember()
    assert [lost.partition for lost in pod.report().lost] == [P0]
    await pod.start()
    assert pod.report().lost == ()
    assert len(pod.report().replicas) == 1
    await pod.close()
