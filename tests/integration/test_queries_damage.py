"""Readers that meet damaged rows: another replica answers, and the damaged one is replaced."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from unittest.mock import create_autospec

import pytest

from qss_core.errors import CorruptionError
from qss_core.model import PartitionId
from qss_store.replicas.replica import Replica
from qss_store.storage.engine import FamilyView
from qss_testing.clients.http import Api
from qss_testing.pods.stores import Cluster, configuration

StartCluster = Callable[..., Awaitable[Cluster]]
MakeApi = Callable[..., Api]
SCAN = "/state/stores/words"
VALUES = {f"k{number:02}": number for number in range(20)}


def damage(cluster: Cluster) -> Replica:
    """Has each read of pod 0 fail as if the files had other bytes than were written."""
    replica = cluster.nodes[0].pod.registry.replicas[PartitionId(0)]
    assert replica.view is not None
    rows = create_autospec(FamilyView, instance=True)
    rows.get.side_effect = rows.scan.side_effect = CorruptionError("a block is damaged")
    replica.current_view.view = replace(replica.view, snapshot=rows)
    return replica


@pytest.mark.parametrize("path", ["/k01", ""])
async def test_another_replica_answers_and_the_pod_reports_the_damage(
    start_cluster: StartCluster, api: MakeApi, path: str
) -> None:
    standby = configuration(0, 0, standbys=[1], epoch=3)
    cluster = await start_cluster(2, partitions=1, engine="memory", configurations=[standby])
    await cluster.until_level()
    await cluster.put_values(VALUES)
    await cluster.until_level()
    damage(cluster)
    found = await api(cluster).get(SCAN + path)
    assert found.status == 200
    assert b"words-1" in found.body + str(dict(found.headers)).encode()
    (report,) = cluster.nodes[0].pod.report().replicas
    assert report.has_damage, "the operator replaces the active"
    refused = (await api(cluster).get(f"{SCAN}{path}?requireActive=true")).body
    assert b"NOT_READY" in refused
    assert b"a block is damaged" in refused
    await cluster.put_values(VALUES)  # Until then it goes on.


async def test_an_only_replica_says_so_and_goes_on(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await start_cluster(1, partitions=1, engine="memory")
    await cluster.put_values(VALUES)
    only = damage(cluster)
    (await api(cluster).get(f"{SCAN}/k01")).problem(500, "STORE_EXCEPTION")
    await cluster.put_values(VALUES)
    assert only.failure is None
