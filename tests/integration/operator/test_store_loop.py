"""The loop of one store against a toy API server: children, pods, failures and the status."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from qss_core.model import PodAddress, StoreName
from qss_core.wire.replica_reports import ReplicasReport
from qss_operator.kubernetes.api.kinds import (
    NETWORK_POLICIES,
    PERSISTENT_VOLUME_CLAIMS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    SERVICE_ACCOUNTS,
    SERVICES,
    STATEFUL_SETS,
    STORES,
)
from qss_operator.kubernetes.store_loop import StoreLoop
from qss_testing.fakes.simulated_pod import STORE
from qss_testing.fakes.toy_cluster import NAMESPACE, PODS_OF_STORE, SPEC, ToyCluster, toy_cluster


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[ToyCluster]:
    async with toy_cluster(tmp_path) as made:
        yield made


def image_of(cluster: ToyCluster, pod: str) -> str:
    found: str = cluster.get(PODS, pod)["metadata"]["annotations"]["queryablestate.dev/template"]
    return found


async def test_a_store_gets_its_children_and_serves(cluster: ToyCluster) -> None:
    cluster.make_store()
    await cluster.settle()
    status = cluster.get(STORES, STORE)["status"]
    assert (status["ready"], status["assigned"], status["inSync"]) == ("3/3", "6/6", "6/6")
    assert status["versions"] == "1"
    assert cluster.condition("Ready")["reason"] == "Serving"
    assert cluster.names(PODS) == PODS_OF_STORE
    assert cluster.names(SERVICES) == [STORE, f"{STORE}-pods"]
    assert cluster.names(SERVICE_ACCOUNTS) == [f"{STORE}-pods"]
    assert cluster.names(NETWORK_POLICIES) == [STORE]
    budget = cluster.get(POD_DISRUPTION_BUDGETS, STORE)
    assert budget["spec"]["maxUnavailable"] == 1
    assert status["endpoints"]["query"] == f"http://{STORE}.{NAMESPACE}.svc:8080"


async def test_a_settled_store_sends_no_request_to_the_api_server(cluster: ToyCluster) -> None:
    cluster.make_store()
    await cluster.settle()
    cluster.server.asked.clear()
    for _ in range(5):
        assert (await cluster.store_loop.run_round())[0] == "settled"
    assert cluster.server.asked == []


async def test_a_new_operator_changes_nothing_of_a_store_that_serves(cluster: ToyCluster) -> None:
    cluster.make_store()
    await cluster.settle()
    before = cluster.get(STORES, STORE)["status"]
    uids = [cluster.get(PODS, pod)["metadata"]["uid"] for pod in PODS_OF_STORE]
    cluster.store_loop = StoreLoop(NAMESPACE, StoreName(STORE), cluster.shared)
    await cluster.settle()
    assert cluster.get(STORES, STORE)["status"] == before
    assert [cluster.get(PODS, pod)["metadata"]["uid"] for pod in PODS_OF_STORE] == uids


async def test_edited_and_deleted_children_are_restored(cluster: ToyCluster) -> None:
    cluster.make_store()
    await cluster.settle()
    cluster.edit(SERVICES, STORE, {"spec": {"type": "NodePort"}})
    cluster.edit(STATEFUL_SETS, STORE, {"spec": {"replicas": 1}})
    cluster.delete(NETWORK_POLICIES, STORE)
    cluster.delete(SERVICE_ACCOUNTS, f"{STORE}-pods")
    await cluster.settle()
    assert cluster.get(SERVICES, STORE)["spec"]["type"] == "ClusterIP"
    assert cluster.names(NETWORK_POLICIES) == [STORE]
    assert cluster.names(SERVICE_ACCOUNTS) == [f"{STORE}-pods"]
    assert cluster.names(PODS) == PODS_OF_STORE


async def test_a_deleted_set_comes_back_with_all_its_pods(cluster: ToyCluster) -> None:
    cluster.make_store()
    await cluster.settle()
    cluster.delete(STATEFUL_SETS, STORE)
    await cluster.settle()
    assert cluster.names(PODS) == PODS_OF_STORE
    assert cluster.condition("Ready")["status"] == "True"


async def test_pods_are_restarted_one_at_a_time_when_their_image_changes(
    cluster: ToyCluster,
) -> None:
    cluster.make_store()
    await cluster.settle()
    old = image_of(cluster, PODS_OF_STORE[0])
    cluster.edit(STORES, STORE, {"spec": {"pod": {"image": "store:2"}}})
    order = []
    for _ in range(20):
        await cluster.store_loop.run_round()
        missing = [pod for pod in PODS_OF_STORE if cluster.find(PODS, pod) is None]
        assert len(missing) <= 1, "pods restart one at a time"
        order += missing
        cluster.control()
    assert order == PODS_OF_STORE[::-1]
    assert all(image_of(cluster, pod) != old for pod in PODS_OF_STORE)


async def test_a_pause_keeps_pods_from_being_restarted(cluster: ToyCluster) -> None:
    cluster.make_store(rebalance={"paused": True})
    await cluster.settle()
    cluster.edit(STORES, STORE, {"spec": {"pod": {"image": "store:2"}}})
    await cluster.settle()
    assert cluster.condition("Progressing")["reason"] == "Paused"
    assert cluster.condition("Ready")["status"] == "True"


async def test_a_store_hibernates_and_wakes_with_its_data(cluster: ToyCluster) -> None:
    cluster.make_store()
    await cluster.settle()
    assignment = cluster.get(STORES, STORE)["status"]["assignment"]
    cluster.edit(STORES, STORE, {"spec": {"replicas": 0}})
    await cluster.settle()
    assert cluster.names(PODS) == []
    assert cluster.condition("Ready")["reason"] == "Hibernated"
    assert len(cluster.names(PERSISTENT_VOLUME_CLAIMS)) == 3
    cluster.edit(STORES, STORE, {"spec": {"replicas": 3}})
    await cluster.settle()
    assert cluster.condition("Ready")["status"] == "True"
    assert cluster.get(STORES, STORE)["status"]["assignment"] == assignment


async def test_a_wiped_status_is_recovered_from_the_pods(cluster: ToyCluster) -> None:
    cluster.make_store()
    await cluster.settle()
    before = cluster.get(STORES, STORE)["status"]["assignment"]
    cluster.edit(STORES, STORE, {"status": None})
    await cluster.settle()
    assert cluster.get(STORES, STORE)["status"]["assignment"] == before
    assert cluster.condition("Ready")["status"] == "True"


async def test_a_new_store_with_an_unsupported_spec_is_not_made(cluster: ToyCluster) -> None:
    cluster.make_store(rebalance={"acceptableRecoveryLagBytes": 3})
    await cluster.settle()
    ready = cluster.condition("Ready")
    assert (ready["status"], ready["reason"]) == ("False", "Unsupported")
    assert ready["message"].startswith("spec.rebalance.acceptableRecoveryLagBytes: has no")
    assert cluster.names(STATEFUL_SETS) == []


async def test_an_unsupported_edit_changes_nothing_and_is_reported(
    cluster: ToyCluster,
) -> None:
    cluster.make_store()
    await cluster.settle()
    cluster.edit(
        STORES,
        STORE,
        {"spec": {"store": {"format": "Plain"}, "rebalance": {"acceptableRecoveryLagBytes": 3}}},
    )
    await cluster.settle()
    degraded = cluster.condition("Degraded")
    assert degraded["reason"] == "Unsupported"
    assert degraded["message"].startswith("spec.rebalance")
    assert cluster.condition("FormatMigrating")["reason"] == "LossyMigrationNotAllowed"
    assert cluster.get(STORES, STORE)["status"]["format"] == "Timestamped"
    assert cluster.condition("Ready")["reason"] == "Unsupported"


async def test_an_unexpected_failure_of_a_round_is_reported(cluster: ToyCluster) -> None:
    cluster.make_store()
    await cluster.settle()
    cluster.edit(STATEFUL_SETS, STORE, {"spec": {"volumeClaimTemplates": None}})
    assert (await cluster.store_loop.run_round())[0] == "failed"
    ready = cluster.condition("Ready")
    assert ready["status"] == "Unknown"
    assert "its log has the details" in ready["message"]


async def test_a_round_that_waits_for_a_silent_pod_ends_and_the_next_round_settles(
    cluster: ToyCluster, caplog: pytest.LogCaptureFixture
) -> None:
    @dataclass(slots=True)
    class Slow(ToyCluster):
        async def report(self, pod: PodAddress) -> ReplicasReport | None:
            await asyncio.Event().wait()
            return None

    cluster.make_store()
    await cluster.settle()
    slow = replace(cluster.shared, pods_of=lambda _: Slow(cluster.server), round_s=0.05)
    store_loop = StoreLoop(NAMESPACE, StoreName(STORE), slow)
    async with asyncio.timeout(20):
        result, pause_s = await store_loop.run_round()
    assert (result, pause_s) == ("failed", 2.0)
    assert "ROUND_TOO_LONG: a round was ended after 0 s" in caplog.text
    assert await cluster.settle() == "settled"


async def test_a_failure_that_cannot_be_reported_does_not_end_the_loop(
    cluster: ToyCluster,
) -> None:
    cluster.make_store()
    await cluster.settle()
    cluster.edit(STORES, STORE, {"spec": None})
    assert (await cluster.store_loop.run_round())[0] == "failed"
    cluster.edit(STORES, STORE, {"spec": SPEC})
    assert await cluster.settle() == "settled"


async def test_a_missing_permission_is_named_in_the_status(cluster: ToyCluster) -> None:
    said = (
        'statefulsets.apps "x" is forbidden: User "system:serviceaccount:ops:qss" cannot patch '
        'resource "statefulsets" in API group "apps" in the namespace "shop"'
    )
    cluster.server.next_answer(403, "Forbidden", said, word="PATCH /apis/apps", times=1)
    cluster.make_store()
    result, pause_s = await cluster.store_loop.run_round()
    assert result == "failed"
    assert pause_s is not None
    degraded = cluster.condition("Degraded")
    assert degraded["reason"] == "Forbidden"
    assert "may not patch statefulsets in the namespace shop" in degraded["message"]
    cluster.pass_pauses()
    await cluster.settle()
    assert cluster.condition("Degraded")["status"] == "False"


INVALID = "spec.template.spec.containers[0].resources.requests: must be less than the limit"


async def rounds(cluster: ToyCluster, number: int) -> None:
    for _ in range(number):
        await cluster.store_loop.run_round()
        cluster.forget_publish_pace()


async def test_a_refused_child_does_not_freeze_the_status(cluster: ToyCluster) -> None:
    cluster.make_store()
    await cluster.settle()
    cluster.server.next_answer(422, "Invalid", INVALID, word="PATCH /apis/apps", times=99)
    cluster.edit(STORES, STORE, {"spec": {"pod": {"image": "store:2"}}})
    await rounds(cluster, 2)
    ready = cluster.condition("Ready")
    assert ready["reason"] == "ObjectInvalid"
    assert ready["message"].startswith("all 6 partitions are served, and the spec is not done")
    degraded = cluster.condition("Degraded")
    assert (degraded["status"], degraded["reason"]) == ("True", "ObjectInvalid")
    assert INVALID in degraded["message"]
    cluster.disks[PODS_OF_STORE[1]].is_running = False
    cluster.delete(PODS, PODS_OF_STORE[1])
    await rounds(cluster, 2)
    status = cluster.get(STORES, STORE)["status"]
    assert (status["ready"], status["assigned"]) == ("2/3", "4/6")
    assert cluster.condition("Ready")["status"] == "False"
    assert INVALID in cluster.condition("Degraded")["message"]
    cluster.control()
    await rounds(cluster, 3)
    served = "all 6 partitions are served"
    assert served in cluster.condition("Ready")["message"], (
        "the status counts the pod that came back"
    )


async def test_a_new_store_whose_set_is_refused_shows_the_refusal_in_every_column(
    cluster: ToyCluster,
) -> None:
    cluster.server.next_answer(422, "Invalid", INVALID, word="PATCH /apis/apps", times=99)
    cluster.make_store()
    await rounds(cluster, 3)
    status = cluster.get(STORES, STORE)["status"]
    assert (status["ready"], status["assigned"]) == ("0/3", "0/6")
    assert status["endpoints"]["query"]
    for kind in ("Ready", "Progressing"):
        found = cluster.condition(kind)
        assert (found["status"], found["reason"]) == ("False", "ObjectInvalid")
        assert INVALID in found["message"]


async def test_no_pod_is_made_without_its_network_policy(cluster: ToyCluster) -> None:
    cluster.server.next_answer(422, "Invalid", "no", word="networkpolicies", times=99)
    cluster.make_store()
    await rounds(cluster, 4)
    assert cluster.names(STATEFUL_SETS) == []
    assert cluster.condition("Ready")["reason"] == "ObjectInvalid"


async def test_without_the_right_to_read_pods_a_store_is_not_shown_as_ready(
    cluster: ToyCluster,
) -> None:
    cluster.make_store()
    await cluster.settle()
    cluster.server.next_answer(403, "Forbidden", "no", word="/pods", times=99)
    cluster.edit(PODS, PODS_OF_STORE[0], {"metadata": {"labels": {"a": "b"}}})
    await rounds(cluster, 1)
    ready = cluster.condition("Ready")
    assert (ready["status"], ready["reason"]) == ("Unknown", "Forbidden")
    assert cluster.condition("Degraded")["reason"] == "Forbidden"


async def test_without_the_right_to_read_pods_a_new_store_is_not_ready(cluster: ToyCluster) -> None:
    cluster.server.next_answer(403, "Forbidden", "no", word="/pods", times=99)
    cluster.make_store()
    await rounds(cluster, 2)
    ready = cluster.condition("Ready")
    assert (ready["status"], ready["reason"]) == ("False", "Forbidden")


async def test_a_pod_of_a_node_without_power_is_named_with_its_node(cluster: ToyCluster) -> None:
    cluster.make_store()
    await cluster.settle()
    cluster.disks[PODS_OF_STORE[1]].is_running = False
    lost = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    cluster.edit(PODS, PODS_OF_STORE[1], lost)
    await rounds(cluster, 2)
    degraded = cluster.condition("Degraded")
    assert (degraded["status"], degraded["reason"]) == ("True", "PodsFailing")
    said = f"{PODS_OF_STORE[1]} was ready and does not answer; its node node0 does not report"
    assert degraded["message"].startswith(said)
    assert cluster.condition("Ready")["reason"] == "PodsFailing"


async def test_an_operator_that_does_not_lead_sends_no_request(cluster: ToyCluster) -> None:
    cluster.make_store()
    cluster.is_leader = False
    assert (await cluster.store_loop.run_round())[0] == "unsettled"
    assert cluster.server.asked == []


async def test_a_resource_that_changes_meanwhile_is_read_again(cluster: ToyCluster) -> None:
    cluster.make_store()
    cluster.server.next_answer(409, "Conflict", "modified", word="PUT", times=2)
    await cluster.settle()
    assert cluster.condition("Ready")["status"] == "True"


async def test_pods_get_new_tokens_when_their_account_was_made_again(cluster: ToyCluster) -> None:
    cluster.make_store(access={"authentication": "ServiceAccount"})
    await cluster.settle()
    before = [cluster.get(PODS, pod)["metadata"]["uid"] for pod in PODS_OF_STORE]
    cluster.delete(SERVICE_ACCOUNTS, f"{STORE}-pods")
    await cluster.settle()
    after = [cluster.get(PODS, pod)["metadata"]["uid"] for pod in PODS_OF_STORE]
    assert not set(before) & set(after)
    assert cluster.condition("Ready")["status"] == "True"


async def test_a_missing_certificate_is_reported(cluster: ToyCluster) -> None:
    cluster.make_store(access={"authentication": "None", "tlsSecretName": "words-tls"})
    await cluster.store_loop.run_round()
    assert (await cluster.store_loop.run_round())[0] == "failed"
    degraded = cluster.condition("Degraded")
    assert degraded["reason"] == "TlsSecret"
    assert degraded["message"].startswith("the Secret words-tls does not exist")
