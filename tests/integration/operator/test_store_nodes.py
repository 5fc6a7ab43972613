"""The loop of one store reads the nodes of its pods: their zones, and which are cordoned."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from qss_core.model import StoreName
from qss_operator.kubernetes.api.kinds import NODES, PODS, STORES
from qss_operator.kubernetes.objects.nodes import Nodes
from qss_operator.kubernetes.store_loop import StoreLoop
from qss_testing.fakes.simulated_pod import STORE
from qss_testing.fakes.toy_cluster import NAMESPACE, PODS_OF_STORE, ToyCluster, toy_cluster
from qss_testing.fakes.toy_objects import Object, Place

ZONE = "topology.kubernetes.io/zone"


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[ToyCluster]:
    async with toy_cluster(tmp_path) as made:
        for number in range(4):
            name = f"node{number}"
            labels = {ZONE: f"zone{number % 2}", "rack": "r1"}
            body: Object = {"metadata": {"name": name, "labels": labels}, "spec": {}}
            made.server.objects.create(place_of(None), body)
        made.is_spread = True
        yield made


def place_of(node: str | None) -> Place:
    return Place(NODES.group, None, NODES.plural, node, None)


def cordon(cluster: ToyCluster, node: str, *, is_cordoned: bool = True) -> None:
    """Does as `kubectl cordon` and `kubectl uncordon`; no watch of the operator hears it."""
    value = True if is_cordoned else None
    cluster.server.objects.patch(place_of(node), {"spec": {"unschedulable": value}})


def reads_of_nodes(cluster: ToyCluster) -> list[str]:
    return [asked for asked in map(str, cluster.server.asked) if "/nodes/" in asked]


def status_of(cluster: ToyCluster) -> Object:
    found: Object = cluster.get(STORES, STORE)["status"]
    return found


def replicas_on(cluster: ToyCluster, pod: int) -> int:
    return sum(pod in one["replicas"] for one in status_of(cluster)["assignment"])


async def test_the_zones_of_the_pods_are_in_the_status(cluster: ToyCluster) -> None:
    cluster.make_store()
    await cluster.settle()
    assert status_of(cluster)["zones"] == "zone0=2,zone1=1"
    cluster.edit(STORES, STORE, {"spec": {"topology": {"spreadKey": "rack"}}})
    await cluster.settle()
    assert status_of(cluster)["zones"] == "r1"


async def test_a_node_that_was_cordoned_after_it_was_read_gets_no_replica(
    cluster: ToyCluster,
) -> None:
    cluster.make_store()
    await cluster.settle()
    cordon(cluster, "node2")
    cluster.pass_pauses()
    cluster.edit(STORES, STORE, {"spec": {"standbys": 1}})
    await cluster.settle()
    held = [replicas_on(cluster, pod) for pod in range(3)]
    assert held[2] == 2, "what the pod had before the cordon"
    assert sum(held) == 12


async def test_an_added_pod_waits_until_its_node_is_not_cordoned(cluster: ToyCluster) -> None:
    cluster.make_store()
    await cluster.settle()
    cordon(cluster, "node3")
    cluster.edit(STORES, STORE, {"spec": {"replicas": 4}})
    await cluster.settle()
    assert cluster.get(PODS, f"{STORE}-3")["spec"]["nodeName"] == "node3"
    assert replicas_on(cluster, 3) == 0
    rebalancing = cluster.condition("Rebalancing")
    assert (rebalancing["status"], rebalancing["reason"]) == ("False", "NodeCordoned")
    assert "`kubectl uncordon node3`" in rebalancing["message"]
    cordon(cluster, "node3", is_cordoned=False)
    cluster.pass_pauses()
    await cluster.settle()
    assert replicas_on(cluster, 3) == 1
    assert cluster.condition("Rebalancing")["reason"] == "NothingToMove"


async def test_a_store_at_rest_reads_no_node_and_a_cordoned_one_twice_a_minute(
    cluster: ToyCluster,
) -> None:
    cordon(cluster, "node0")
    cluster.make_store()
    await cluster.settle()
    cluster.server.asked.clear()
    for _ in range(5):
        await cluster.store_loop.run_round()
    assert cluster.server.asked == []
    for _ in range(5):
        cluster.clock.ahead_s += 31.0
        await cluster.store_loop.run_round()
    reads = reads_of_nodes(cluster)
    assert len(reads) == 5
    assert all("node0" in read for read in reads)


async def test_an_operator_without_a_right_to_nodes_knows_no_zone_and_no_cordon(
    cluster: ToyCluster,
) -> None:
    """An operator of some namespaces: nodes belong to none."""
    shared = cluster.shared
    blind = Nodes(shared.api, may_read=False, clock=shared.clock)
    cluster.store_loop = StoreLoop(NAMESPACE, StoreName(STORE), replace(shared, nodes=blind))
    cordon(cluster, "node0")
    cluster.make_store()
    await cluster.settle()
    assert cluster.condition("Ready")["reason"] == "Serving"
    assert "zones" not in status_of(cluster)
    assert [replicas_on(cluster, pod) for pod in range(3)] == [2, 2, 2]
    assert reads_of_nodes(cluster) == []


async def test_a_node_that_is_gone_or_cannot_be_read_is_as_it_was_read_last(
    cluster: ToyCluster,
) -> None:
    cluster.make_store()
    await cluster.settle()
    cluster.pass_pauses()
    cluster.server.objects.delete(place_of("node0"), {})
    cluster.server.next_answer(403, "Forbidden", word="/nodes/node1", times=100)
    cluster.edit(STORES, STORE, {"spec": {"standbys": 1}})
    await cluster.settle()
    assert len(reads_of_nodes(cluster)) > 3
    assert [replicas_on(cluster, pod) for pod in range(3)] == [3, 6, 3], "one in each zone"
    assert status_of(cluster)["zones"] == "zone0=2,zone1=1"


async def test_a_pod_that_does_not_end_holds_up_no_restart_of_pods_with_other_copies(
    cluster: ToyCluster,
) -> None:
    cluster.make_store(standbys=2)
    await cluster.settle()
    for disk in cluster.disks.values():
        disk.written = set(range(6))
    uids = [cluster.get(PODS, pod)["metadata"]["uid"] for pod in PODS_OF_STORE]
    # The node has no power: its kubelet neither ends the pod nor says so.
    cluster.disks[PODS_OF_STORE[2]].is_running = False
    held = {"finalizers": ["example.com/kubelet"], "deletionGracePeriodSeconds": 60}
    cluster.edit(PODS, PODS_OF_STORE[2], {"metadata": held})
    cluster.delete(PODS, PODS_OF_STORE[2])
    cluster.edit(STORES, STORE, {"spec": {"pod": {"image": "store:2"}}})

    async def pods_after(seconds: float) -> list[str]:
        cluster.clock.ahead_s += seconds
        for _ in range(40):
            await cluster.store_loop.run_round()
            cluster.control()
            cluster.forget_publish_pace()
        return [cluster.get(PODS, pod)["metadata"]["uid"] for pod in PODS_OF_STORE]

    assert await pods_after(15.0) == uids
    assert "word-counts-2 is stopping" in cluster.condition("Progressing")["message"]
    assert await pods_after(80.0) == uids, "a kubelet may take so long"
    new = await pods_after(20.0)
    assert [old == now for old, now in zip(uids, new, strict=True)] == [False, False, True]
    assert (
        "word-counts-2 should have stopped long ago" in cluster.condition("Progressing")["message"]
    )
