"""Readers that meet damaged rows: another replica answers, and the damaged one is replaced."""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any
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


async def with_standby(start_cluster: StartCluster, values: dict[str, int]) -> Cluster:
    """Two pods: the active of one partition, and a standby that shows the same values."""
    standby = configuration(0, 0, standbys=[1], epoch=3)
    cluster = await start_cluster(2, partitions=1, engine="memory", configurations=[standby])
    await cluster.until_level()
    await cluster.put_values(values)
    await cluster.until_level()
    return cluster


def damage(cluster: Cluster) -> Replica:
    """Has each read of pod 0 fail as if the files had other bytes than were written."""
    replica = cluster.nodes[0].pod.registry.replicas[PartitionId(0)]
    assert replica.view is not None
    rows = create_autospec(FamilyView, instance=True)
    error = CorruptionError("a block is damaged")
    rows.get.side_effect = rows.get_many.side_effect = rows.scan.side_effect = error
    replica.current_view.view = replace(replica.view, rows=rows)
    return replica


def raised(error: Exception) -> None:
    raise error


@pytest.mark.parametrize("path", ["/k01", ""])
async def test_another_replica_answers_and_the_pod_reports_the_damage(
    start_cluster: StartCluster, api: MakeApi, path: str
) -> None:
    cluster = await with_standby(start_cluster, VALUES)
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


@pytest.mark.parametrize("is_traced", [False, True])
async def test_a_batch_get_that_meets_damage_asks_another_replica_for_all_keys(
    start_cluster: StartCluster, api: MakeApi, is_traced: bool
) -> None:
    cluster = await with_standby(start_cluster, VALUES)
    damage(cluster)
    asked = {"keys": ["k01", "k02"], "executionInfo": is_traced}
    found = (await api(cluster).post("/state/get/words", asked)).json()
    assert [one["status"] for one in found["results"]] == ["FOUND", "FOUND"]
    (report,) = cluster.nodes[0].pod.report().replicas
    assert report.has_damage, "the operator replaces the active"


async def test_of_a_sole_replica_a_batch_get_gives_the_keys_that_can_be_read(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await start_cluster(1, partitions=1, engine="memory")
    await cluster.put_values(VALUES)
    view: Any = damage(cluster).current_view.view
    damaged = CorruptionError("a block is damaged")
    view.rows.get.side_effect = lambda key: None if b"absent" in key else raised(damaged)
    asked = {"keys": ["k01", "absent"]}
    found = (await api(cluster).post("/state/get/words", asked)).json()
    assert [one["status"] for one in found["results"]] == ["FAILED", "ABSENT"]
    (report,) = cluster.nodes[0].pod.report().replicas
    assert report.has_damage


@pytest.mark.parametrize("rows_before", [0, 600], ids=["at its beginning", "in its middle"])
async def test_a_scan_of_a_replica_that_was_replaced_does_not_mark_the_copy(
    start_cluster: StartCluster, api: MakeApi, rows_before: int
) -> None:
    values = {f"k{number:04}": number for number in range(1000)}
    cluster = await with_standby(start_cluster, values)
    registry, partition = cluster.nodes[0].pod.registry, PartitionId(0)
    copy = cluster.nodes[1].pod.registry.replicas[partition]
    damaged = registry.replicas[partition]
    assert damaged.view is not None
    whole = damaged.view.rows

    def scan(**bounds: Any) -> Iterator[tuple[bytes, bytes]]:
        yield from islice(whole.scan(**bounds), rows_before)
        registry.replicas[partition] = copy
        raise CorruptionError("a block is damaged")

    rows = create_autospec(FamilyView, instance=True)
    rows.scan.side_effect = scan
    damaged.current_view.view = replace(damaged.view, rows=rows)
    try:
        await api(cluster).get(f"{SCAN}?scope=local&limit=1001")
        assert registry.replicas[partition] is copy, "the scan met the damage"
        assert copy.health.damage is None
    finally:
        registry.replicas[partition] = damaged


async def test_an_only_replica_says_so_and_goes_on(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await start_cluster(1, partitions=1, engine="memory")
    await cluster.put_values(VALUES)
    only = damage(cluster)
    (await api(cluster).get(f"{SCAN}/k01")).problem(500, "STORE_EXCEPTION")
    await cluster.put_values(VALUES)
    assert only.failure is None
