"""A pod with a database that refuses writes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from qss_core.model import PartitionId
from qss_store.storage.engine import Engine
from qss_testing.faults.faulty_engine import Faults, SpoiltWhenTold
from qss_testing.faults.rolled_back import cluster_of, write
from qss_testing.pods.write_cluster import WriteCluster

SPOILT = PartitionId(1)


@asynccontextmanager
async def spoilt_cluster(directory: Path) -> AsyncIterator[WriteCluster]:
    """One pod, one of whose databases can refuse writes like RocksDB after it met damage."""
    faults = Faults()
    async with cluster_of(directory, pods=1) as cluster:
        await cluster.stop_pod(0)
        open_engine = cluster.open_engine

        def open_spoilt(path: Path) -> Engine:
            return SpoiltWhenTold(open_engine(path), faults)

        cluster.open_engine = open_spoilt
        await cluster.start_pod(0)
        (await write(cluster, 0, b"1")).json()
        await cluster.pods[0].coordination.driver.finish()
        spoil(cluster, is_spoilt=True)
        yield cluster
        spoil(cluster, is_spoilt=False)


def spoil(cluster: WriteCluster, *, is_spoilt: bool) -> None:
    """Sets whether the database refuses writes; a reopened database does not."""
    engine = cluster.replica(SPOILT).engine
    assert isinstance(engine, SpoiltWhenTold)
    engine.is_spoilt = is_spoilt
