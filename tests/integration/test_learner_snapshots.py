"""An active makes snapshots of its database for learners, and greets a learner that has a copy."""

from functools import partial
from pathlib import Path

import pytest

from qss_core.errors import MalformedRequestError
from qss_core.model import Ordinal
from qss_store.replication.messages import (
    SnapshotEnd,
    SnapshotPartRequest,
    SnapshotRequest,
)
from qss_testing.pods.write_cluster import replica_of, replicated


async def test_a_learner_that_asks_again_gets_a_snapshot_in_place_of_its_old_one(
    tmp_path: Path,
) -> None:
    """The answers to its first requests were lost: nobody reads those snapshots."""
    async with replicated(tmp_path) as cluster:
        request = SnapshotRequest(
            store_id=cluster.definition.store_id,
            sender=Ordinal(1),
            configuration=cluster.configurations[0],
        )
        snapshots = cluster.pods[0].services.snapshots
        for _ in range(6):
            found = await snapshots.begin(request)
        assert [path.name for path in (tmp_path / "0" / "snapshots").iterdir()] == [found.snapshot]
        part = SnapshotPartRequest(
            store_id=request.store_id, snapshot=found.snapshot, file="../x", offset=0, size=1
        )
        with pytest.raises(MalformedRequestError):
            snapshots.check_part(part)


async def test_a_learner_that_has_installed_its_copy_is_greeted_at_once(tmp_path: Path) -> None:
    """It waited for the next hello, up to a second, and then as long for entries."""
    async with replicated(tmp_path) as cluster:
        request = SnapshotRequest(
            store_id=cluster.definition.store_id,
            sender=Ordinal(1),
            configuration=cluster.configurations[0],
        )
        snapshots, signal = cluster.pods[0].services.snapshots, cluster.pods[0].pod.send_signal
        woken: list[bool] = []
        for is_installed in (False, True):
            found = await snapshots.begin(request)
            signal.connect(partial(woken.append, is_installed), lambda: None)
            await snapshots.end(SnapshotEnd(snapshot=found.snapshot, is_installed=is_installed))
        assert woken == [True]
        followers = replica_of(cluster, 0).followers
        followers.installed(Ordinal(1))
        assert followers.owes_hello(Ordinal(1))
        assert followers.sent_s(Ordinal(1)) == float("-inf")
