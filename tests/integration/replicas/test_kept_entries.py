"""An active keeps the entries behind the copies that learners of its partition make."""

from pathlib import Path

from qss_core.model import Ordinal
from qss_store.replicas.replica import Replica
from qss_store.replication.messages import SnapshotRequest
from qss_testing.pods.ports import free_ports
from qss_testing.pods.write_cluster import WriteCluster, lead, replica_of, replicated, write
from qss_testing.waiting import wait_until_async

_ROWS = {0: {b"a": b"1"}}


async def begin_copy(cluster: WriteCluster, learner: int) -> None:
    """The learner asks for a snapshot of the active on pod 0."""
    request = SnapshotRequest(
        store_id=cluster.definition.store_id,
        sender=Ordinal(learner),
        configuration=cluster.configurations[0],
    )
    await cluster.pods[0].services.snapshots.begin(request)


async def start_after_a_cut(cluster: WriteCluster, active: Replica) -> int:
    """The first entry that is left once the active has cut all that it may cut."""
    await wait_until_async(lambda: active.log.applied == active.log.watermark)
    while active.changelog.cut(cluster.limits, active.machine.open_floor):
        pass
    return active.log.start


async def test_entries_stay_for_a_learner_while_another_one_copies_and_joins(
    tmp_path: Path,
) -> None:
    """They were cut, so that the copy was of no use: the learner copied the database anew."""
    async with replicated(tmp_path, pods=3, changelog_retention_bytes=1) as cluster:
        cluster.ports[1] = free_ports(1)[0]  # The active does not reach the learner that copies.
        await lead(cluster, 0, 3, learners=[1, 2])
        active, writer = replica_of(cluster, 0), cluster.writer(0)
        await wait_until_async(lambda: active.followers.learners.caught_up() == (2,))
        epoch = await writer.epoch()
        await write(writer, epoch, 0, _ROWS)
        await begin_copy(cluster, 1)
        copied = active.log.applied
        await write(writer, epoch, 1, _ROWS)
        await begin_copy(cluster, 2)
        await write(writer, epoch, 2, _ROWS)
        assert await start_after_a_cut(cluster, active) == copied
        await active.followers.learners.count(Ordinal(2))
        assert await start_after_a_cut(cluster, active) == copied
        await active.followers.learners.count(Ordinal(1))
        assert await start_after_a_cut(cluster, active) > copied
