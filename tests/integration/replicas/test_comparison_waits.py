"""Rows that wait to be compared, and alarms that wait to end: no event in between forgets them."""

import asyncio
from pathlib import Path

import pytest

from qss_core.errors import CorruptionError
from qss_core.model import Ordinal
from qss_store.replicas.peers import follower_progress
from qss_store.replicas.replica import Replica
from qss_store.replicas.transfer.row_comparison import RowComparison
from qss_store.replication.messages import COMPARE_PATH, UNLIKE_PATH
from qss_store.runtime.peer_client import PeerSession
from qss_testing.faults.unlike_rows import (
    KEYS,
    InterruptedPeers,
    back_in_sync,
    compare,
    damaged,
    filled,
    look,
    spoil,
    told_epoch,
)
from qss_testing.pods.stores import configuration
from qss_testing.pods.write_cluster import WriteCluster, lead, replica_of, replicated, rows_of
from qss_testing.waiting import wait_until_async

_LEASE_MS = 1500


async def restart(cluster: WriteCluster, pod: int) -> None:
    await cluster.stop_pod(pod)
    await cluster.start_pod(pod)


async def test_a_pass_during_which_a_standby_is_away_is_made_again(tmp_path: Path) -> None:
    """The standby restarts, and stays in sync."""
    async with replicated(tmp_path) as cluster:
        await filled(cluster, 0, 1)
        await cluster.stop_pod(1)
        await look(cluster, 0)
        await cluster.start_pod(1)
        await wait_until_async(lambda: len(rows_of(replica_of(cluster, 1))))
        spoil(replica_of(cluster, 1), KEYS[9])
        await look(cluster, 0)
        assert told_epoch(cluster, 0) == 2


@pytest.mark.parametrize("path", [COMPARE_PATH, UNLIKE_PATH])
async def test_a_pass_ends_no_wait_that_began_during_it(tmp_path: Path, path: str) -> None:
    """The standbys go during a pass, and one of them comes back with its rows."""
    async with replicated(tmp_path, lease_ms=_LEASE_MS) as cluster, PeerSession() as session:
        await filled(cluster, 0, 1)
        spoil(replica_of(cluster, 1), KEYS[9])
        await look(cluster, 0)
        services = cluster.pods[0].services
        peers = InterruptedPeers(session, path, lambda: lead(cluster, 0, 3))
        comparison = RowComparison(services.pod.registry, peers, services.settings)
        await look(cluster, 0, comparison.compare, rest_s=0)
        assert told_epoch(cluster, 0) is None
        await back_in_sync(cluster, 4)
        await look(cluster, 0)
        assert told_epoch(cluster, 0) == 5


async def test_a_damaged_block_ends_no_wait(tmp_path: Path) -> None:
    async with replicated(tmp_path, lease_ms=_LEASE_MS) as cluster:
        await filled(cluster, 0, 1)
        spoil(replica_of(cluster, 1), KEYS[9])
        await look(cluster, 0)
        await lead(cluster, 0, 3)

        async def damaged_block(_: Replica) -> bool:
            raise CorruptionError("a block")

        await look(cluster, 0, damaged_block, rest_s=0)
        assert damaged(cluster) == [0]
        replica_of(cluster, 0).health.forget_damage()
        await back_in_sync(cluster, 4)
        await look(cluster, 0)
        assert told_epoch(cluster, 0) == 5


@pytest.mark.parametrize("own_pass", [True, False])
async def test_an_alarm_outlives_the_restart_of_the_next_active(
    tmp_path: Path, *, own_pass: bool
) -> None:
    """The next active may have kept that its own pass has ended: it compares soon all the same."""
    async with replicated(tmp_path, lease_ms=_LEASE_MS) as cluster:
        await filled(cluster, 0, 1)
        if own_pass:
            await look(cluster, 1)
        before = spoil(replica_of(cluster, 1), KEYS[9])
        await look(cluster, 0)
        await lead(cluster, 1, 3, standbys=[0])
        await restart(cluster, 1)
        assert told_epoch(cluster, 1) == 2
        await lead(cluster, 1, 4, standbys=[0])
        await look(cluster, 1)
        assert told_epoch(cluster, 1) == 4, "the rows were compared again"
        spoil(replica_of(cluster, 1), KEYS[9], before)
        await lead(cluster, 1, 5, standbys=[0])
        await look(cluster, 1)
        assert told_epoch(cluster, 1) is None
        for pod in (0, 1):
            await restart(cluster, pod)
            assert replica_of(cluster, pod).health.unlike is None, "the end is kept, too"


async def test_a_wait_for_a_comparison_outlives_a_restart(tmp_path: Path) -> None:
    """A partition was left alone, and a replica that was left out comes back with its rows."""
    async with replicated(tmp_path, lease_ms=_LEASE_MS) as cluster:
        await look(cluster, 0)  # Its end is kept: no other pass is due for a day.
        await filled(cluster, 0, 1)
        spoil(replica_of(cluster, 1), KEYS[9])
        await lead(cluster, 0, 3, standbys=[1])
        await compare(cluster)
        await lead(cluster, 0, 4)
        await restart(cluster, 0)
        assert told_epoch(cluster, 0) is None, "no other replica is left"
        await back_in_sync(cluster, 5)
        await look(cluster, 0)
        assert told_epoch(cluster, 0) == 6


async def test_a_partition_that_was_left_alone_while_its_pod_was_away_tells_no_alarm(
    tmp_path: Path,
) -> None:
    async with replicated(tmp_path, lease_ms=_LEASE_MS) as cluster:
        await filled(cluster, 0, 1)
        spoil(replica_of(cluster, 1), KEYS[9])
        await compare(cluster)
        await cluster.stop_pod(0)
        await cluster.assign([configuration(0, 0, epoch=3)])
        await cluster.start_pod(0)
        await cluster.until_led()
        assert told_epoch(cluster, 0) is None


async def test_a_copy_of_an_active_with_an_alarm_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows are those of the active."""
    # A learner that answers its active while it is copied refuses the copy.
    monkeypatch.setattr(follower_progress, "_HEARTBEAT_S_MAX", 3600.0)
    async with replicated(tmp_path, pods=3, lease_ms=60_000) as cluster:
        await filled(cluster, 0, 1)
        spoil(replica_of(cluster, 1), KEYS[9])
        await compare(cluster)
        await lead(cluster, 0, 3, standbys=[1], learners=[2])
        active = replica_of(cluster, 0)
        await wait_until_async(lambda: 2 in active.followers.learners.caught_up())
        copies, before = cluster.pods[2].services.copies, replica_of(cluster, 2)
        while replica_of(cluster, 2) is before:
            copies.begin(active.log.configuration, Ordinal(0))
            await asyncio.gather(*copies.tasks)
        await wait_until_async(lambda: 2 in active.followers.learners.caught_up())
        await restart(cluster, 2)
        assert told_epoch(cluster, 0) == 2
        assert replica_of(cluster, 2).health.unlike is None
