"""Rows that wait to be compared, and alarms that wait to end: no event in between forgets them."""

from pathlib import Path

from qss_core.errors import CorruptionError
from qss_store.replicas.replica import Replica
from qss_store.replicas.sending.row_comparison import RowComparison
from qss_store.runtime.peer_client import PeerSession
from qss_testing.faults.unlike_rows import (
    KEYS,
    InterruptedPeers,
    back_in_sync,
    damaged,
    filled,
    look,
    spoil,
    told_epoch,
)
from qss_testing.pods.write_cluster import lead, replica_of, replicated, rows_of
from qss_testing.waiting import wait_until_async

_LEASE_MS = 1500


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


async def test_a_pass_ends_no_wait_that_began_during_it(tmp_path: Path) -> None:
    """The standbys go during a pass, and one of them comes back with its rows."""
    async with replicated(tmp_path, lease_ms=_LEASE_MS) as cluster, PeerSession() as session:
        await filled(cluster, 0, 1)
        spoil(replica_of(cluster, 1), KEYS[9])
        await look(cluster, 0)
        services = cluster.pods[0].services
        peers = InterruptedPeers(session, lambda: lead(cluster, 0, 3))
        comparison = RowComparison(services.pod.registry, peers, services.settings)
        await look(cluster, 0, comparison.compare, rest_s=0)
        assert told_epoch(cluster, 0) is None
        await back_in_sync(cluster)
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
        await back_in_sync(cluster)
        await look(cluster, 0)
        assert told_epoch(cluster, 0) == 5
