"""Building an index meets damaged rows: only their partition is lost."""

import shutil
from pathlib import Path

import pytest

from qss_core.errors import CorruptionError
from qss_core.model import Epoch, PartitionId
from qss_core.wire.losses import AcceptLossRequest
from qss_store.replicas.pod import Pod
from qss_store.runtime.peer_client import Peers, PeerSession
from qss_store.runtime.settings import Settings
from qss_store.storage.rocksdb.database import RocksDbEngine
from qss_store.transactions.commands import Barrier
from qss_store.writes.loss_acceptance import LossAcceptance
from qss_store.writes.sequence_comparison import Comparison
from qss_testing.faults.faulty_engine import Faults, SpoiltWhenTold
from qss_testing.pods.stores import Cluster, Put, commit_rows, open_rocksdb
from qss_testing.reference.own_stores import BY_VALUE, NEXT_BY_VALUE, by_value
from qss_testing.waiting import wait_until_async

WHOLE, SPOILT = PartitionId(0), PartitionId(1)
PUTS = [Put(b"k%06d" % number, b"%06d" % number, 1) for number in range(5000)]


def spoil(file: Path) -> None:
    """Flips one bit in the middle of a file."""
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0x40
    file.write_bytes(data)


async def stopped(volume: Path) -> tuple[Cluster, Path]:
    """A store of two partitions, and the file with rows of one; its next start builds indexes.

    The file is as a loss of power left it: a clean stop would merge it with others.
    """
    definition = by_value(format="Timestamped", partitions=2)
    cluster = Cluster(definition, volume, open_rocksdb(), extensions=BY_VALUE)
    await cluster.start(1)
    for replica in cluster.nodes[0].pod.registry.replicas.values():
        await commit_rows(replica, PUTS, batch=0, position={})
    spoilt = cluster.nodes[0].pod.registry.replicas[SPOILT]
    assert isinstance(spoilt.engine, RocksDbEngine)
    directory = volume / "0" / "partitions" / str(SPOILT)
    before = set(directory.glob("*.sst"))
    spoilt.engine.column_families[spoilt.views.families.name].flush()
    (made,) = set(directory.glob("*.sst")) - before
    shutil.copytree(directory, volume / "copy")
    await cluster.stop_pod(0)
    shutil.rmtree(directory)
    (volume / "copy").rename(directory)
    cluster.open_engine = open_rocksdb()  # Its block cache is empty.
    cluster.extensions = NEXT_BY_VALUE
    return cluster, made


async def assert_the_other_one_is_served(pod: Pod) -> None:
    # Waiting does not repair damage, so the pod is ready with the other partition.
    await wait_until_async(lambda: pod.is_ready)
    assert pod.registry.replicas[WHOLE].view is not None
    assert SPOILT not in pod.registry.replicas
    assert [(one.partition, one.is_waiting) for one in pod.report().lost] == [(SPOILT, False)]


async def test_damage_that_is_met_at_once_loses_only_its_partition(tmp_path: Path) -> None:
    cluster, file = await stopped(tmp_path)
    try:
        spoil(file)
        pod = (await cluster.start_pod(0)).pod
        await assert_the_other_one_is_served(pod)
    finally:
        await cluster.close()


async def test_damage_that_is_met_later_loses_only_its_partition(tmp_path: Path) -> None:
    cluster, _ = await stopped(tmp_path)
    open_engine, faults = cluster.open_engine, Faults()
    cluster.open_engine = lambda path: SpoiltWhenTold(open_engine(path), faults)
    try:
        pod = (await cluster.start_pod(0)).pod
        assert not pod.is_ready  # The pod builds indexes.
        replica, before = pod.registry.replicas[SPOILT], pod.report_feed.version
        assert isinstance(replica.engine, SpoiltWhenTold)
        asked = replica.append(Barrier())  # It has to be applied after the indexes are built.
        replica.engine.is_spoilt = True
        with pytest.raises(CorruptionError, match="a block is damaged"):
            await asked
        # The pod's report for the operator changed.
        await wait_until_async(lambda: pod.report_feed.version > before)
        assert SPOILT not in pod.registry.replicas
        with pytest.raises(CorruptionError, match="is lost: a block is damaged"):
            pod.registry.local(SPOILT)
        with pytest.raises(CorruptionError, match="a block is damaged"):
            replica.append(Barrier())
        await assert_the_other_one_is_served(pod)
        # A person may accept the loss.
        await accept_loss(pod)
        await wait_until_async(lambda: pod.registry.replicas[SPOILT].view is not None)
        assert pod.report().lost == ()
        assert pod.is_ready
    finally:
        await cluster.close()


async def accept_loss(pod: Pod) -> None:
    definition = pod.registry.placed().definition
    request = AcceptLossRequest(store_id=definition.store_id, partition=SPOILT, epoch=Epoch(1))
    async with PeerSession() as session:
        comparison = Comparison(pod, Peers(session), Settings())
        await LossAcceptance(pod, comparison).accept(request)
