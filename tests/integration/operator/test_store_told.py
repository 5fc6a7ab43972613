"""The status of a store reports refused pods, and edits that the operator does not carry out."""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from qss_core.model import StoreName
from qss_operator.kubernetes.api.kinds import (
    EVENTS,
    PERSISTENT_VOLUME_CLAIMS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    SECRETS,
    SERVICES,
    STORES,
)
from qss_operator.kubernetes.store_loop import StoreLoop
from qss_testing.fakes.simulated_pod import STORE
from qss_testing.fakes.toy_cluster import NAMESPACE, PODS_OF_STORE, SPEC, ToyCluster, toy_cluster
from qss_testing.fakes.toy_objects import Object
from qss_testing.pods.certificates import Authority

QUOTA = "forbidden: exceeded quota: small, requested: cpu=100m"


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[ToyCluster]:
    async with toy_cluster(tmp_path) as made:
        yield made


async def rounds(cluster: ToyCluster, number: int) -> None:
    for _ in range(number):
        await cluster.store_loop.run_round()
        cluster.control()
        cluster.forget_publish_pace()


async def test_the_status_quotes_why_the_api_server_refuses_pods(cluster: ToyCluster) -> None:
    cluster.refused = QUOTA
    cluster.make_store()
    await rounds(cluster, 5)
    assert cluster.condition("Ready")["reason"] == "PodsStarting", (
        "pods may take some seconds to start"
    )
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


async def test_a_refused_pod_of_a_serving_store_is_reported(cluster: ToyCluster) -> None:
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


async def test_without_the_right_to_read_events_the_status_names_a_command(
    cluster: ToyCluster,
) -> None:
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
    "Unsupported": {"rebalance": {"acceptableRecoveryLagBytes": 3}},
    "LossyMigrationNotAllowed": {"store": {"format": "Plain"}},
}


@pytest.mark.parametrize("reason", UNDONE)
async def test_an_edit_that_is_not_carried_out_does_not_read_as_done(
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
    # The store still serves: drains are allowed, and no alert for an unready store fires.
    assert cluster.get(POD_DISRUPTION_BUDGETS, STORE)["spec"]["maxUnavailable"] == 1
    assert 'store_ready{namespace="shop",store="word-counts"} 1.0' in metrics_of(cluster)
    degraded = f'store_degraded{{namespace="shop",reason="{reason}",store="word-counts"}} 1.0'
    assert degraded in metrics_of(cluster)
    assert reason in await warnings_of(cluster)
    cluster.edit(STORES, STORE, {"spec": SPEC, "status": cluster.get(STORES, STORE)["status"]})
    cluster.edit(STORES, STORE, {"spec": {"rebalance": None, "store": {"format": None}}})
    await cluster.settle()
    assert cluster.condition("Ready")["status"] == "True"
    assert cluster.condition("Degraded")["status"] == "False"
    assert "store_degraded{" not in metrics_of(cluster)


async def test_a_refused_size_makes_an_event_and_can_be_reverted(
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


async def test_a_volume_that_waits_for_its_node_is_not_reported_at_first(
    cluster: ToyCluster,
) -> None:
    """With WaitForFirstConsumer, pod and claim are Pending for seconds of each normal start."""
    cluster.make_store()
    await rounds(cluster, 1)
    for number, pod in enumerate(PODS_OF_STORE):
        cluster.disks[pod].is_running = False
        waits: Object = {
            "phase": "Pending",
            "containerStatuses": [],
            "podIP": None,
            "conditions": [],
        }
        cluster.edit(PODS, pod, {"status": waits})
        claim = f"data-{STORE}-{number}"
        cluster.edit(PERSISTENT_VOLUME_CLAIMS, claim, {"status": {"phase": "Pending"}})
    await rounds(cluster, 2)
    assert cluster.condition("Ready")["reason"] == "PodsStarting"
    assert await warnings_of(cluster) == []
    cluster.clock.ahead_s += 21.0
    await rounds(cluster, 2)
    assert "waits for its volume" in cluster.condition("Degraded")["message"]
    assert "PodsFailing" in await warnings_of(cluster)


async def test_a_reverted_child_makes_an_event_that_names_the_writer(cluster: ToyCluster) -> None:
    cluster.make_store()
    await cluster.settle()
    by = {"managedFields": [{"manager": "kubectl-edit", "time": "2026-11-23T00:00:00Z"}]}
    cluster.edit(SERVICES, STORE, {"spec": {"type": "NodePort"}, "metadata": by})
    await cluster.settle()
    said = f"Service {STORE} was changed by kubectl-edit and is set back"
    assert ("ChildReverted", said) in await told_by(cluster)
    assert cluster.get(SERVICES, STORE)["spec"]["type"] == "ClusterIP"


async def test_a_changed_status_of_a_child_is_no_revert(cluster: ToyCluster) -> None:
    cluster.make_store()
    await cluster.settle()
    cluster.edit(SERVICES, STORE, {"status": {"loadBalancer": {"ingress": []}}})
    cluster.edit(STORES, STORE, {"spec": {"access": {"queryFrom": [{"podSelector": {}}]}}})
    await cluster.settle()
    assert "ChildReverted" not in [reason for reason, _ in await told_by(cluster)]


async def test_a_forbidden_secret_is_reported_with_the_value_of_the_chart(
    cluster: ToyCluster,
) -> None:
    cluster.make_store(access={"authentication": "None", "tlsSecretName": "words-tls"})
    cluster.server.next_answer(403, "Forbidden", "no", word="/secrets/words-tls", times=99)
    await rounds(cluster, 2)
    message = cluster.condition("Ready")["message"]
    assert "add words-tls to the chart's value tls.secretNames" in message


def make_secret(cluster: ToyCluster, authority: Authority) -> None:
    pem = b64encode(authority.file.read_bytes()).decode()
    made = {"metadata": {"name": "words-tls"}, "data": {"tls.crt": pem, "tls.key": "eA=="}}
    cluster.server.objects.create(cluster.place(SECRETS), made)


async def test_a_store_goes_on_while_its_secret_is_away_and_restarts_no_pod(
    cluster: ToyCluster, tmp_path: Path
) -> None:
    authority = Authority.make(tmp_path / "authority")
    make_secret(cluster, authority)
    cluster.make_store(access={"authentication": "None", "tlsSecretName": "words-tls"})
    await cluster.settle()
    before = [cluster.get(PODS, pod)["metadata"]["uid"] for pod in PODS_OF_STORE]
    cluster.server.objects.delete(cluster.place(SECRETS, "words-tls"), {})
    cluster.clock.ahead_s += 61.0
    cluster.edit(STORES, STORE, {"spec": {"pod": {"image": "store:2"}}})
    await cluster.settle()
    degraded = cluster.condition("Degraded")
    assert (degraded["status"], degraded["reason"]) == ("True", "TlsSecret")
    assert degraded["message"].startswith("the Secret words-tls does not exist")
    assert "the certificate authority that it read last" in degraded["message"]
    assert cluster.condition("Ready")["status"] == "True"
    assert "since a new pod could not start" in cluster.condition("Progressing")["message"]
    assert [cluster.get(PODS, pod)["metadata"]["uid"] for pod in PODS_OF_STORE] == before
    make_secret(cluster, authority)
    cluster.clock.ahead_s += 11.0
    await cluster.settle()
    assert cluster.condition("Degraded")["status"] == "False"
    after = [cluster.get(PODS, pod)["metadata"]["uid"] for pod in PODS_OF_STORE]
    assert not set(before) & set(after)


async def test_a_wrong_value_of_adopt_volumes_is_reported(cluster: ToyCluster) -> None:
    cluster.make_store()
    await cluster.settle()
    old = cluster.get(STORES, STORE)["status"]["storeId"]
    cluster.delete(STORES, STORE)
    await rounds(cluster, 1)
    cluster.store_loop = StoreLoop(NAMESPACE, StoreName(STORE), cluster.shared)
    cluster.make_store()
    adopt = {"metadata": {"annotations": {"queryablestate.dev/adopt-volumes": "5f0c"}}}
    cluster.edit(STORES, STORE, adopt)
    await cluster.settle()
    message = cluster.condition("Ready")["message"]
    assert f"adopt-volumes={old}" in message
    assert "It says '5f0c' now, which is the id of none of these volumes" in message


async def told_by(cluster: ToyCluster) -> list[tuple[str, str]]:
    """The reasons and messages of the store's events."""
    await warnings_of(cluster)
    events = cluster.server.objects.page(cluster.place(EVENTS), {})["items"]
    return [(one["reason"], one["message"]) for one in events]
