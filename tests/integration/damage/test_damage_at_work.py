"""Damage that RocksDB meets while the pod runs: reported, read where possible, accepted as lost."""

from pathlib import Path

import pytest

from qss_core.errors import CorruptionError
from qss_store.transactions.commands import Barrier
from qss_testing.faults.damage import SPOILT, spoilt_cluster
from qss_testing.faults.rolled_back import accept, losses, write


async def test_a_partition_that_takes_no_writes_is_told_and_its_loss_accepted(
    tmp_path: Path,
) -> None:
    async with spoilt_cluster(tmp_path) as cluster:
        pod = cluster.pods[0].pod
        with pytest.raises(CorruptionError):
            cluster.replica(SPOILT).append(Barrier())
        report = {one.configuration.partition: one for one in pod.report().replicas}[SPOILT]
        assert (report.state, report.is_damaged) == ("failed", True)
        assert pod.is_ready
        assert cluster.rows(SPOILT) == {b"k": b"1"}, "its rows are read as before"
        (await accept(cluster, SPOILT)).json()
        assert cluster.rows(SPOILT) == {}
        assert losses(cluster, SPOILT) == [(1, 1, 1)]
        assert (tmp_path / "0" / "partitions" / f"{SPOILT}.damaged-1").exists()
        (await write(cluster, 1, b"2", "run-3")).json()
        assert cluster.rows(SPOILT) == {b"k": b"2"}
        await cluster.stop_pod(0)
        held = await cluster.start_pod(0)
        assert held.pod.report().lost == ()
        assert cluster.rows(SPOILT) == {b"k": b"2"}
