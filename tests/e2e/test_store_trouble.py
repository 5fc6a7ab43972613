"""Stores in trouble and deleted stores: the status says why nothing happens and what to do."""

from collections.abc import Iterator

import pytest

from e2e.clients import PodClient
from e2e.kubectl import Cluster, CommandError
from e2e.releases import OPERATOR, leader
from e2e.stores import condition, has_grown, is_ready, pods_of, says, small_store, uids_of
from qss_testing.waiting import wait_until

_STORES = 50


@pytest.fixture
def here(own_operator: Cluster, namespace: Cluster) -> Iterator[Cluster]:
    """The namespace; its stores and volumes are deleted after each test."""
    yield namespace
    namespace.kubectl("delete", "qss", "--all", "--timeout=120s", timeout_s=130)
    # Pods stop after their store is deleted, and claims are deleted after their pods.
    namespace.kubectl("delete", "pvc", "--all", "--timeout=240s", timeout_s=250)


def test_the_status_says_why_no_node_takes_a_pod(here: Cluster) -> None:
    here.apply(small_store("big", pod={"resources": {"requests": {"cpu": "900"}}}))
    here.until("qss/big", says("Ready", "PodsFailing", "big-0", "Insufficient cpu"))
    here.patch("qss/big", {"spec": {"pod": {"resources": {"requests": {"cpu": "20m"}}}}})
    here.until("qss/big", is_ready)


def test_the_status_names_a_volume_that_is_not_made(here: Cluster) -> None:
    here.apply(small_store("lost", storage={"size": "1Gi", "storageClassName": "nosuch"}))
    found = here.until("qss/lost", says("Ready", "PodsFailing", "lost-0"))
    message = condition(found, "Ready")["message"]
    assert "volume" in message.lower() or "claim" in message.lower(), message


def test_an_unsupported_field_is_refused_by_name(here: Cluster) -> None:
    store = small_store("early", replicas=2, rebalance={"acceptableRecoveryLagBytes": 3})
    here.apply(store)
    here.until(
        "qss/early", says("Ready", "Unsupported", "spec.rebalance.acceptableRecoveryLagBytes")
    )
    assert pods_of(here, "early") == []


def test_a_store_type_that_no_package_has_is_named(here: Cluster) -> None:
    store = small_store("early")
    store["spec"]["store"] |= {"type": "Custom", "custom": {"name": "top"}}
    here.apply(store)
    here.until("qss/early", says("Ready", "StoreTypeRefused", "STORE_TYPE_REFUSED"))
    here.until("qss/early", says("Degraded", "StoreTypeRefused", "'top'"))


def test_a_name_of_forty_characters_works(here: Cluster, client: PodClient) -> None:
    name = "a" * 40
    here.apply(small_store(name))
    here.until(f"qss/{name}", is_ready)
    client.write(name, 10, 1)
    assert len(client.read(name)) == 10


def test_volumes_grow_under_a_running_store(here: Cluster, client: PodClient) -> None:
    storage = {"size": "1Gi", "storageClassName": "expandable"}
    here.apply(small_store("growing", replicas=2, storage=storage))
    here.until("qss/growing", is_ready)
    client.write("growing", 300, 1)
    uids = {one["metadata"]["uid"] for one in pods_of(here, "growing")}
    here.patch("qss/growing", {"spec": {"storage": {"size": "2Gi"}}})
    wait_until(lambda: has_grown(here, "growing", "2Gi"), 90.0)
    here.until("qss/growing", says("StorageResizing", "NoResize"))
    here.until("qss/growing", is_ready)
    assert {one["metadata"]["uid"] for one in pods_of(here, "growing")} == uids
    assert len(client.read("growing")) == 300


def test_a_refused_growth_names_the_claim(here: Cluster) -> None:
    here.apply(small_store("fixed", storage={"size": "1Gi", "storageClassName": "standard"}))
    here.until("qss/fixed", is_ready)
    here.patch("qss/fixed", {"spec": {"storage": {"size": "2Gi"}}})
    found = here.until("qss/fixed", says("StorageResizing", "ResizeRefused", "data-fixed-0"))
    assert condition(found, "Ready")["reason"] == "ResizeRefused"
    here.patch("qss/fixed", {"spec": {"storage": {"size": "1Gi"}}})
    here.until("qss/fixed", is_ready)


def test_the_status_quotes_the_quota_that_refuses_pods(here: Cluster) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "small"}}
    here.apply({**quota, "spec": {"hard": {"pods": "1"}}})
    try:
        here.apply(small_store("refused", replicas=2))
        found = here.until("qss/refused", says("Ready", "PodsFailing", "exceeded quota: small"))
        assert condition(found, "Degraded")["reason"] == "PodsFailing"
        assert "is not made: forbidden" in condition(found, "Ready")["message"]
    finally:
        here.kubectl("delete", "resourcequota", "small")
    here.until("qss/refused", is_ready)


def test_pods_run_as_any_user_and_services_have_annotations(
    here: Cluster, client: PodClient
) -> None:
    """As on OpenShift, pods get a user and a group that the image does not define."""
    number = 1000710000
    store = small_store("platform", access={"serviceAnnotations": {"example.com/zone": "internal"}})
    store["spec"]["pod"] |= {
        "securityContext": {"runAsUser": number, "fsGroup": number},
        "imagePullSecrets": [{"name": "registry"}],
        "topologySpreadConstraints": [],
        "terminationGracePeriodSeconds": 30,
    }
    here.apply(store)
    here.until("qss/platform", is_ready)
    client.write("platform", 10, 1)
    assert len(client.read("platform")) == 10
    spec = pods_of(here, "platform")[0]["spec"]
    assert spec["securityContext"]["runAsUser"] == number
    assert spec["imagePullSecrets"] == [{"name": "registry"}]
    assert spec["terminationGracePeriodSeconds"] == 30
    annotations = here.get("service", "platform")["metadata"]["annotations"]
    assert annotations == {"example.com/zone": "internal"}
    # A normal start makes no event of type Warning.
    about = "involvedObject.kind=QueryableStateStore,involvedObject.name=platform"
    told = here.items("events", "--field-selector", about)
    assert {one["type"] for one in told} == {"Normal"}, [one["message"] for one in told]


def test_a_deleted_volume_is_not_replaced_by_an_empty_volume(
    here: Cluster, client: PodClient
) -> None:
    here.apply(small_store("robbed", replicas=2))
    here.until("qss/robbed", is_ready)
    client.write("robbed", 100, 1)
    uids = uids_of(here, "robbed")
    here.kubectl("delete", "pvc", "data-robbed-1", "--wait=false")
    here.patch("qss/robbed", {"spec": {"pod": {"annotations": {"changed": "yes"}}}})
    here.until("qss/robbed", says("Degraded", "VolumeDeleted", "data-robbed-1"))
    assert is_ready(here.get("qss", "robbed"))
    assert uids_of(here, "robbed") == uids
    assert here.get("pdb", "robbed")["spec"]["maxUnavailable"] == 0
    here.kubectl("delete", "pod", "robbed-1")
    here.until("qss/robbed", says("Ready", "NoInSyncReplica", "robbed-1"))
    here.until("qss/robbed", says("Degraded", "NoInSyncReplica", "robbed-1"))


def test_retained_volumes_are_adopted_only_with_the_annotation(
    here: Cluster, client: PodClient
) -> None:
    here.apply(small_store("again", replicas=2))
    here.until("qss/again", is_ready)
    client.write("again", 300, 7)
    old = here.get("qss", "again")["status"]["storeId"]
    here.kubectl("delete", "qss", "again", "--timeout=90s", timeout_s=100)
    wait_until(lambda: here.find("statefulset/again") is None, 60.0)
    assert len(here.items("pvc", "--selector", "queryablestate.dev/store=again")) == 2

    here.apply(small_store("again", replicas=2))
    here.until("qss/again", says("Ready", "RetainedVolumesFound", old, "adopt-volumes"))
    here.kubectl("annotate", "qss", "again", f"queryablestate.dev/adopt-volumes={old}")
    here.until("qss/again", is_ready)
    assert client.read("again") == {f"key-{one}": 7 for one in range(300)}


def test_volumes_are_deleted_with_the_store_if_its_spec_says_so(here: Cluster) -> None:
    here.apply(small_store("gone", storage={"size": "1Gi", "whenDeleted": "Delete"}))
    here.until("qss/gone", is_ready)
    here.kubectl("delete", "qss", "gone", "--timeout=90s", timeout_s=100)
    selector = ("--selector", "queryablestate.dev/store=gone")
    wait_until(lambda: not here.items("pvc", *selector))
    kinds = "statefulset,service,serviceaccount,pdb,networkpolicy,pods"
    wait_until(lambda: not here.items(kinds, *selector))


def test_the_status_names_a_missing_permission_of_the_operator(
    here: Cluster, own_operator: Cluster
) -> None:
    role = f"role/{own_operator.namespace}-qss-queryable-state"
    before = here.get(role)
    rules = [rule for rule in before["rules"] if rule["resources"] != ["networkpolicies"]]
    without = {"apiGroups": ["networking.k8s.io"], "resources": ["networkpolicies"]}
    here.patch(role, {"rules": [*rules, {**without, "verbs": ["list", "watch"]}]})
    try:
        here.apply(small_store("forbidden"))
        here.until("qss/forbidden", says("Degraded", "Forbidden", "networkpolicies"))
    finally:
        here.patch(role, {"rules": before["rules"]})
    here.until("qss/forbidden", is_ready)


def test_edits_during_rounds_end_with_the_last_edit(
    here: Cluster,
) -> None:
    here.apply(small_store("edited"))
    for number in range(12):
        size = f"{96 + number}Mi"
        here.patch(
            "qss/edited",
            {"spec": {"pod": {"resources": {"requests": {"memory": size}}}}},
        )

    def is_last() -> bool:
        pods = pods_of(here, "edited")
        return bool(pods) and all(
            one["spec"]["containers"][0]["resources"]["requests"]["memory"] == "107Mi"
            for one in pods
        )

    wait_until(is_last, 120.0)
    here.until("qss/edited", is_ready)


def test_fifty_stores_at_once(here: Cluster, own_operator: Cluster) -> None:
    resources = {"requests": {"cpu": "5m", "memory": "16Mi"}}
    names = [f"many-{number}" for number in range(_STORES)]
    here.apply(*(small_store(one, partitions=1, pod={"resources": resources}) for one in names))

    def ready() -> bool:
        return sum(is_ready(one) for one in here.items("qss")) == _STORES

    wait_until(ready, 480.0)
    # One operator has done the work without a restart.
    pod = own_operator.get("pod", leader(own_operator))
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 0
    here.kubectl("delete", "qss", "--all", "--timeout=240s", timeout_s=250)


def test_a_store_waits_for_an_operator_that_is_away(here: Cluster, own_operator: Cluster) -> None:
    here.apply(small_store("alone", storage={"size": "1Gi", "whenDeleted": "Delete"}))
    here.until("qss/alone", is_ready)
    own_operator.kubectl("scale", OPERATOR, "--replicas=0")
    try:
        with pytest.raises(CommandError, match="timed out"):
            here.kubectl("delete", "qss", "alone", "--timeout=5s")
        assert len(pods_of(here, "alone")) == 1
    finally:
        own_operator.kubectl("scale", OPERATOR, "--replicas=2")
    here.until_gone("qss/alone")
