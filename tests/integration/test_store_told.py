"""What a store's status says of what does not happen: pods that are refused, wishes not done."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from qss_operator.kubernetes.kinds import EVENTS, POD_DISRUPTION_BUDGETS, PODS, STORES
from qss_testing.control_world import STORE
from qss_testing.toy_cluster import NAMESPACE, PODS_OF_STORE, SPEC, ToyCluster, toy_cluster

QUOTA = "forbidden: exceeded quota: small, requested: cpu=100m"


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[ToyCluster]:
    async with toy_cluster(tmp_path) as made:
        yield made


async def rounds(cluster: ToyCluster, number: int) -> None:
    for _ in range(number):
        await cluster.keeper.run_round()
        cluster.control()
        cluster.forget_publish_pace()


async def test_pods_that_the_api_server_refuses_are_told_in_its_words(cluster: ToyCluster) -> None:
    cluster.refused = QUOTA
    cluster.make_store()
    await rounds(cluster, 5)
    assert cluster.condition("Ready")["reason"] == "PodsStarting", "it takes its time"
    cluster.clock.ahead_s += 6.0
    await rounds(cluster, 2)
    for kind in ("Ready", "Degraded"):
        found = cluster.condition(kind)
        assert found["reason"] == "PodsFailing"
        assert f"{', '.join(PODS_OF_STORE)} is not made: {QUOTA}" in found["message"]
    assert cluster.condition("Progressing")["status"] == "False"
    cluster.refused = None
    await cluster.settle()
    assert cluster.condition("Ready")["status"] == "True"
    assert cluster.condition("Degraded")["status"] == "False"


async def test_a_pod_of_a_store_that_serves_is_told_when_it_is_refused(cluster: ToyCluster) -> None:
    cluster.make_store()
    await cluster.settle()
    cluster.refused = QUOTA
    cluster.disks[PODS_OF_STORE[0]].is_running = False
    cluster.delete(PODS, PODS_OF_STORE[0])
    await rounds(cluster, 2)
    cluster.clock.ahead_s += 6.0
    await rounds(cluster, 2)
    degraded = cluster.condition("Degraded")
    assert (degraded["status"], degraded["reason"]) == ("True", "PodsFailing")
    assert QUOTA in degraded["message"]


async def test_without_the_right_to_read_events_the_command_is_told(cluster: ToyCluster) -> None:
    cluster.refused = QUOTA
    cluster.make_store()
    cluster.server.next_answer(403, "Forbidden", "no", word="/events", times=99)
    await rounds(cluster, 4)
    cluster.clock.ahead_s += 6.0
    await rounds(cluster, 2)
    command = f"`kubectl describe statefulset {STORE} -n {NAMESPACE}` shows why"
    assert command in cluster.condition("Degraded")["message"]
    assert cluster.get(STORES, STORE)["status"]["ready"] == "0/3"


UNDONE = {
    "MovesNotSupported": {"replicas": 5},
    "Unsupported": {"standbys": 1},
    "LossyMigrationNotAllowed": {"store": {"format": "Plain"}},
}


@pytest.mark.parametrize("reason", UNDONE)
async def test_a_wish_that_is_not_done_does_not_read_as_done(
    cluster: ToyCluster, reason: str
) -> None:
    cluster.make_store()
    await cluster.settle()
    cluster.edit(STORES, STORE, {"spec": UNDONE[reason]})
    await cluster.settle()
    for kind, status in (("Ready", "False"), ("Progressing", "False"), ("Degraded", "True")):
        found = cluster.condition(kind)
        assert (found["status"], found["reason"]) == (status, reason), kind
    ready = cluster.condition("Ready")["message"]
    assert ready.startswith("all 6 partitions are served, and the spec is not done: ")
    assert cluster.get(STORES, STORE)["status"]["assigned"] == "6/6"
    # It serves all the same: drains may go on, and no alert of a store that is down fires.
    assert cluster.get(POD_DISRUPTION_BUDGETS, STORE)["spec"]["maxUnavailable"] == 1
    assert 'store_ready{namespace="shop",store="word-counts"} 1.0' in metrics_of(cluster)
    degraded = f'store_degraded{{namespace="shop",reason="{reason}",store="word-counts"}} 1.0'
    assert degraded in metrics_of(cluster)
    assert reason in await warnings_of(cluster)
    cluster.edit(STORES, STORE, {"spec": SPEC, "status": cluster.get(STORES, STORE)["status"]})
    cluster.edit(STORES, STORE, {"spec": {"standbys": None, "store": {"format": None}}})
    await cluster.settle()
    assert cluster.condition("Ready")["status"] == "True"
    assert cluster.condition("Degraded")["status"] == "False"
    assert "store_degraded{" not in metrics_of(cluster)


async def test_a_refused_size_is_told_with_an_event_and_can_be_taken_back(
    cluster: ToyCluster,
) -> None:
    cluster.make_store()
    await cluster.settle()
    assert cluster.get(STORES, STORE)["status"]["volumeSize"] == "1Gi"
    why = "only dynamically provisioned pvc can be resized"
    word = "PATCH /api/v1/namespaces/shop/persistentvolumeclaims"
    cluster.server.next_answer(403, "Forbidden", why, word=word, times=9)
    cluster.edit(STORES, STORE, {"spec": {"storage": {"size": "2Gi"}}})
    await cluster.settle()
    assert cluster.condition("Ready")["reason"] == "ResizeRefused"
    assert "ResizeRefused" in await warnings_of(cluster)
    cluster.edit(STORES, STORE, {"spec": {"storage": {"size": "1Gi"}}})
    await cluster.settle()
    assert cluster.condition("Ready")["status"] == "True"
    assert cluster.condition("StorageResizing")["reason"] == "NoResize"


def metrics_of(cluster: ToyCluster) -> str:
    return cluster.shared.metrics.render(lambda: None).decode()


async def warnings_of(cluster: ToyCluster) -> list[str]:
    """The reasons of the store's events of type Warning."""
    posting = asyncio.create_task(cluster.shared.events.run())
    await cluster.shared.events.drain()
    posting.cancel()
    events = cluster.server.objects.page(cluster.place(EVENTS), {})["items"]
    return [one["reason"] for one in events if one["type"] == "Warning"]
