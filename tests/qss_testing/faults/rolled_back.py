"""A store of three partitions whose volumes can go back, and the acceptance of the loss."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from qss_core.errors import UnreachableError
from qss_core.model import Epoch, PartitionId
from qss_core.wire.losses import AcceptLossRequest
from qss_core.wire.messages import encode
from qss_testing.clients.http import Answer
from qss_testing.pods.stores import open_rocksdb
from qss_testing.pods.write_cluster import Chunks, Rows, WriteCluster, write_cluster

PARTITIONS = 3


def cluster_of(directory: Path, *, pods: int = 3) -> Any:
    return write_cluster(directory, pods=pods, partitions=PARTITIONS, open_engine=open_rocksdb())


async def write(
    cluster: WriteCluster, batch: int, value: bytes, run: str = "run-1", **members: Any
) -> Answer:
    """Writes a batch of one row in each partition."""
    rows: Mapping[int, Rows] = {number: {b"k": value} for number in range(PARTITIONS)}
    epoch = await cluster.writer().epoch(run)
    chunks: Chunks = {}
    for number, of_it in rows.items():
        ordinal = cluster.configurations[number].active
        id_ = f"{epoch}.t{number}.0"
        chunks |= await cluster.writer(ordinal).stage(epoch, batch, id_, {number: of_it})
    return await cluster.writer().commit(epoch, batch, chunks, **members)


async def rolled_back(cluster: WriteCluster, directory: Path, pod: int) -> None:
    """A cluster with two batches; the volume of one pod is in the state after the first one."""
    volume = directory / str(pod)
    (await write(cluster, 0, b"1")).json()
    await cluster.stop_pod(pod)
    shutil.copytree(volume, directory / "backup")
    await cluster.start_pod(pod)
    (await write(cluster, 1, b"2", "run-2")).json()
    await cluster.pods[0].coordination.driver.finish()
    await cluster.stop_pod(pod)
    shutil.rmtree(volume)
    (directory / "backup").rename(volume)
    started = await cluster.start_pod(pod)
    while not await started.comparison.round():
        pass  # On a busy machine the pod serves before all others have answered it.


async def accept(cluster: WriteCluster, partition: int, epoch: int = 1) -> Answer:
    request = AcceptLossRequest(
        store_id=cluster.definition.store_id,
        partition=PartitionId(partition),
        epoch=Epoch(epoch),
    )
    pod = cluster.pods[cluster.configurations[partition].active]
    while True:
        answer = await pod.internal.send("POST", "/control/accept-data-loss", encode(request), {})
        if UnreachableError.code.encode() not in answer.body:
            return answer  # On a busy machine another pod may take longer than the limit.


def losses(cluster: WriteCluster, partition: int) -> list[tuple[int, int, int]]:
    pod = cluster.pods[cluster.configurations[partition].active].pod
    (report,) = [one for one in pod.report().replicas if one.configuration.partition == partition]
    assert report.state == "serving", report.error
    return [(one.first, one.last, one.epoch) for one in report.losses]


def values(cluster: WriteCluster) -> list[bytes]:
    return [cluster.rows(number)[b"k"] for number in range(PARTITIONS)]
