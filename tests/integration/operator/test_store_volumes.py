"""The loop of one store against a toy API server: its volumes, and its deletion."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from qss_core.model import Ordinal, StoreId, StoreName
from qss_operator.kubernetes.api.kinds import (
    PERSISTENT_VOLUME_CLAIMS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    STATEFUL_SETS,
    STORES,
)
from qss_operator.kubernetes.store_loop import StoreLoop
from qss_testing.fakes.simulated_pod import STORE, SimulatedPod
from qss_testing.fakes.toy_cluster import NAMESPACE, PODS_OF_STORE, ToyCluster, toy_cluster


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[ToyCluster]:
    async with toy_cluster(tmp_path) as made:
        yield made


async def test_volumes_grow_and_the_set_is_made_again_around_its_pods(cluster: ToyCluster) -> None:
    cluster.make_store()
    await cluster.settle()
    pods = [cluster.get(PODS, pod)["metadata"]["uid"] for pod in PODS_OF_STORE]
    cluster.edit(STORES, STORE, {"spec": {"storage": {"size": "2Gi"}}})
    await cluster.store_loop.run_round()
    claims = cluster.names(PERSISTENT_VOLUME_CLAIMS)
    asked = [cluster.get(PERSISTENT_VOLUME_CLAIMS, name)["spec"]["resources"] for name in claims]
    assert asked == [{"requests": {"storage": "2Gi"}}] * 3
    for name in claims:  # As the storage driver does.
        capacity = {"status": {"capacity": {"storage": "2Gi"}}}
        cluster.edit(PERSISTENT_VOLUME_CLAIMS, name, capacity)
    await cluster.store_loop.run_round()
    await cluster.store_loop.run_round()
    await cluster.settle()
    template = cluster.get(STATEFUL_SETS, STORE)["spec"]["volumeClaimTemplates"][0]
    assert template["spec"]["resources"]["requests"]["storage"] == "2Gi"
    assert [cluster.get(PODS, pod)["metadata"]["uid"] for pod in PODS_OF_STORE] == pods
    assert cluster.condition("StorageResizing")["status"] == "False"


async def test_a_refused_growth_of_a_volume_is_reported_and_tried_again(
    cluster: ToyCluster,
) -> None:
    cluster.make_store()
    await cluster.settle()
    why = "only dynamically provisioned pvc can be resized"
    cluster.server.next_answer(403, "Forbidden", why, word="persistentvolumeclaims")
    cluster.edit(STORES, STORE, {"spec": {"storage": {"size": "2Gi"}}})
    await cluster.settle()
    resizing = cluster.condition("StorageResizing")
    assert (resizing["status"], resizing["reason"]) == ("False", "ResizeRefused")
    assert why in resizing["message"]
    assert cluster.condition("Ready")["reason"] == "ResizeRefused"
    cluster.pass_pauses()  # The storage class allows expansion now.
    await cluster.settle()
    assert cluster.condition("StorageResizing")["reason"] == "Resizing"


async def test_a_claim_with_a_similar_name_is_not_deleted(cluster: ToyCluster) -> None:
    cluster.make_store(storage={"size": "1Gi", "whenDeleted": "Delete"})
    await cluster.settle()
    claim = cluster.get(PERSISTENT_VOLUME_CLAIMS, f"data-{STORE}-0")
    for name in ("backup", f"data-{STORE}-0-backup", f"data-{STORE}-00"):
        metadata = {"name": name, "labels": claim["metadata"]["labels"]}
        body = {"metadata": metadata, "spec": claim["spec"]}
        cluster.server.objects.create(cluster.place(PERSISTENT_VOLUME_CLAIMS), body)
        cluster.tell(PERSISTENT_VOLUME_CLAIMS, name)
    cluster.delete(STORES, STORE)
    await cluster.store_loop.run_round()
    cluster.control()
    assert await cluster.settle() == "gone"
    kept = ["backup", f"data-{STORE}-0-backup", f"data-{STORE}-00"]
    assert cluster.names(PERSISTENT_VOLUME_CLAIMS) == kept


async def test_a_deleted_store_stops_its_pods_before_anything_else(cluster: ToyCluster) -> None:
    cluster.make_store(storage={"size": "1Gi", "whenDeleted": "Delete"})
    await cluster.settle()
    cluster.delete(STORES, STORE)
    await cluster.store_loop.run_round()
    assert cluster.names(STATEFUL_SETS) == []
    assert len(cluster.names(PERSISTENT_VOLUME_CLAIMS)) == 3, "the pods still use the claims"
    assert cluster.find(STORES, STORE) is not None
    cluster.control()
    assert await cluster.settle() == "gone"
    assert cluster.names(PERSISTENT_VOLUME_CLAIMS) == []
    assert cluster.find(STORES, STORE) is None


async def test_a_store_that_retains_its_volumes_has_no_finalizer(cluster: ToyCluster) -> None:
    cluster.make_store(storage={"size": "1Gi", "whenDeleted": "Delete"})
    await cluster.settle()
    assert cluster.get(STORES, STORE)["metadata"]["finalizers"] == ["queryablestate.dev/volumes"]
    cluster.edit(STORES, STORE, {"spec": {"storage": {"whenDeleted": "Retain"}}})
    await cluster.settle()
    assert not cluster.get(STORES, STORE)["metadata"].get("finalizers")
    cluster.delete(STORES, STORE)
    assert (await cluster.store_loop.run_round())[0] == "gone"
    assert len(cluster.names(PERSISTENT_VOLUME_CLAIMS)) == 3


async def test_a_claim_that_was_never_bound_is_deleted_with_its_store(cluster: ToyCluster) -> None:
    cluster.make_store()
    await cluster.settle()
    pending = f"data-{STORE}-2"
    cluster.edit(PERSISTENT_VOLUME_CLAIMS, pending, {"status": {"phase": "Pending"}})
    cluster.delete(STORES, STORE)
    assert (await cluster.store_loop.run_round())[0] == "unsettled", (
        "a pod may still need the claim"
    )
    cluster.delete(STATEFUL_SETS, STORE)  # As the garbage collector does.
    cluster.control()
    assert await cluster.settle() == "gone"
    assert cluster.names(PERSISTENT_VOLUME_CLAIMS) == [f"data-{STORE}-0", f"data-{STORE}-1"]


async def test_a_deletion_ends_without_the_right_to_read_claims(
    cluster: ToyCluster,
) -> None:
    cluster.make_store()
    await cluster.settle()
    cluster.edit(PERSISTENT_VOLUME_CLAIMS, f"data-{STORE}-2", {"status": {"phase": "Pending"}})
    cluster.delete(STORES, STORE)
    cluster.server.next_answer(403, "Forbidden", "no", word="persistentvolumeclaims", times=9)
    assert (await cluster.store_loop.run_round())[0] == "gone"


async def test_a_pod_whose_claim_is_being_deleted_is_not_stopped(cluster: ToyCluster) -> None:
    cluster.make_store()
    await cluster.settle()
    claim = f"data-{STORE}-1"
    uids = [cluster.get(PODS, pod)["metadata"]["uid"] for pod in PODS_OF_STORE]
    delete_under_its_pod(cluster, claim)
    await cluster.settle()
    degraded = cluster.condition("Degraded")
    assert (degraded["status"], degraded["reason"]) == ("True", "VolumeDeleted")
    assert f"{claim} is deleted, and the data goes when {STORE}-1 stops" in degraded["message"]
    assert cluster.get(POD_DISRUPTION_BUDGETS, STORE)["spec"]["maxUnavailable"] == 0
    assert cluster.condition("Ready")["status"] == "True"
    cluster.edit(STORES, STORE, {"spec": {"pod": {"image": "store:2"}}})
    await cluster.settle()
    cluster.edit(STORES, STORE, {"spec": {"replicas": 0}})
    await cluster.settle()
    assert [cluster.get(PODS, pod)["metadata"]["uid"] for pod in PODS_OF_STORE] == uids


async def with_written_standbys(cluster: ToyCluster) -> None:
    """A store with a standby of each partition, all with rows."""
    cluster.make_store(standbys=1)
    await cluster.settle()
    for disk in cluster.disks.values():
        disk.written = set(range(6))


def delete_under_its_pod(cluster: ToyCluster, claim: str) -> None:
    """Deletes a claim, which Kubernetes keeps while its pod runs."""
    held = {"metadata": {"finalizers": ["kubernetes.io/pvc-protection"]}}
    cluster.edit(PERSISTENT_VOLUME_CLAIMS, claim, held)
    cluster.delete(PERSISTENT_VOLUME_CLAIMS, claim)


async def test_a_pod_with_a_deleted_claim_is_ended_once_other_pods_have_its_data(
    cluster: ToyCluster,
) -> None:
    pod, claim = PODS_OF_STORE[1], f"data-{STORE}-1"
    await with_written_standbys(cluster)
    delete_under_its_pod(cluster, claim)
    said = set()
    for _ in range(40):
        await cluster.store_loop.run_round()
        cluster.forget_publish_pace()
        degraded = cluster.condition("Degraded")
        said.add((degraded["reason"], degraded["message"]))
        if cluster.find(PODS, pod) is None:
            break
    assert cluster.find(PODS, pod) is None
    assert {reason for reason, _ in said} == {"VolumeDeleted"}
    assert all("the operator restarts word-counts-1 with a new volume" in text for _, text in said)
    entries = cluster.get(STORES, STORE)["status"]["assignment"]
    assert len(entries) == 6
    assert all(1 not in entry["inSync"] and entry["active"] != 1 for entry in entries)
    assert cluster.find(PODS, PODS_OF_STORE[0]) is not None
    assert cluster.find(PODS, PODS_OF_STORE[2]) is not None
    # Kubernetes now removes the claim, and makes the pod with an empty volume.
    cluster.edit(PERSISTENT_VOLUME_CLAIMS, claim, {"metadata": {"finalizers": None}})
    cluster.disks[pod] = SimulatedPod(ordinal=Ordinal(1), written=set(range(6)))
    await cluster.settle()
    assert cluster.condition("Degraded")["reason"] == "Healthy"
    assert cluster.get(STORES, STORE)["status"]["inSync"] == "12/12"
    assert cluster.get(POD_DISRUPTION_BUDGETS, STORE)["spec"]["maxUnavailable"] == 1


async def test_a_new_pod_is_not_ended_while_the_watch_of_its_claim_is_late(
    cluster: ToyCluster,
) -> None:
    pod, claim = PODS_OF_STORE[1], f"data-{STORE}-1"
    await with_written_standbys(cluster)
    made = cluster.get(PERSISTENT_VOLUME_CLAIMS, claim)
    delete_under_its_pod(cluster, claim)
    while cluster.find(PODS, pod) is not None:
        await cluster.store_loop.run_round()
        cluster.forget_publish_pace()
    # The claim goes and is made anew, of which the operator hears nothing yet.
    objects, place = cluster.server.objects, cluster.place(PERSISTENT_VOLUME_CLAIMS, claim)
    objects.patch(place, {"metadata": {"finalizers": None}})
    new = {"name": claim, "labels": made["metadata"]["labels"]}
    objects.create(
        cluster.place(PERSISTENT_VOLUME_CLAIMS),
        {"metadata": new, "spec": made["spec"], "status": made["status"]},
    )
    cluster.disks[pod] = SimulatedPod(ordinal=Ordinal(1), written=set(range(6)))
    cluster.control()
    uid = cluster.get(PODS, pod)["metadata"]["uid"]
    await cluster.settle()
    assert cluster.get(PODS, pod)["metadata"]["uid"] == uid
    assert cluster.condition("Degraded")["reason"] == "Healthy"


async def test_a_store_that_is_being_deleted_names_the_pods_that_it_waits_for(
    cluster: ToyCluster,
) -> None:
    cluster.make_store(storage={"size": "1Gi", "whenDeleted": "Delete"})
    await cluster.settle()
    cluster.delete(STORES, STORE)
    await cluster.store_loop.run_round()
    status = cluster.get(STORES, STORE)["status"]
    assert (status["ready"], status["assigned"]) == ("0/3", "0/6")
    ready = cluster.condition("Ready")
    assert (ready["status"], ready["reason"]) == ("False", "Deleting")
    assert f"{', '.join(PODS_OF_STORE)} on node0" in ready["message"]
    cluster.control()
    assert await cluster.settle() == "gone"


async def test_volumes_of_an_earlier_store_are_adopted_only_with_the_annotation(
    cluster: ToyCluster,
) -> None:
    cluster.make_store()
    await cluster.settle()
    cluster.delete(STORES, STORE)
    cluster.control()
    await cluster.settle()
    old = cluster.disks[PODS_OF_STORE[0]].store_id
    cluster.store_loop = StoreLoop(NAMESPACE, StoreName(STORE), cluster.shared)
    cluster.make_store()
    await cluster.settle()
    ready = cluster.condition("Ready")
    assert ready["reason"] == "RetainedVolumesFound"
    assert f"adopt-volumes={old}" in ready["message"]
    annotations = {"queryablestate.dev/adopt-volumes": old}
    cluster.edit(STORES, STORE, {"metadata": {"annotations": annotations}})
    await cluster.settle()
    assert cluster.condition("Ready")["status"] == "True"
    assert cluster.get(STORES, STORE)["status"]["storeId"] == old


async def test_an_emptied_volume_is_not_served(cluster: ToyCluster) -> None:
    cluster.make_store()
    await cluster.settle()
    cluster.disks[PODS_OF_STORE[1]].store_id = StoreId("") or None
    cluster.disks[PODS_OF_STORE[1]].held = ()
    await cluster.settle()
    ready = cluster.condition("Ready")
    assert (ready["status"], ready["reason"]) == ("False", "NoInSyncReplica")
    assert PODS_OF_STORE[1] in ready["message"]
