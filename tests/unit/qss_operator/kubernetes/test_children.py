"""The objects of a store, as the operator applies them."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from qss_core.spec.resource import AccessSpec
from qss_operator.kubernetes.names import STORE_LABEL, TEMPLATE_ANNOTATION, StoreNames
from qss_operator.kubernetes.objects.children import beside_pods, owner_of, stateful_set
from qss_operator.kubernetes.objects.pod_template import PodDefaults, pod_template
from qss_testing.fakes.control_world import spec_of
from qss_testing.fakes.simulated_pod import STORE

NAMES = StoreNames(namespace="shop", store=STORE)
DEFAULTS = PodDefaults(image="store:1", operator_service_account="system/operator")
OWNER = owner_of({"metadata": {"name": STORE, "uid": "uid-1"}})
OPEN = {"authentication": "None"}
CRD_FILE = Path(__file__).parents[4] / "crds" / "queryablestatestores.yaml"


def template(**spec: Any) -> dict[str, Any]:
    return pod_template(NAMES, spec_of(access=OPEN, **spec), DEFAULTS)


def container(**spec: Any) -> dict[str, Any]:
    found: dict[str, Any] = template(**spec)["spec"]["containers"][0]
    return found


def arguments(**spec: Any) -> list[str]:
    found = pod_template(NAMES, spec_of(**spec), DEFAULTS)["spec"]["containers"][0]["args"]
    return [str(argument) for argument in found]


def test_every_child_belongs_to_its_store() -> None:
    made = [
        body for _, body in beside_pods(NAMES, OWNER, AccessSpec(), DEFAULTS, may_evict_one=True)
    ]
    made.append(stateful_set(NAMES, OWNER, spec_of(access=OPEN), DEFAULTS, 3))
    for body in made:
        metadata = body["metadata"]
        assert metadata["ownerReferences"] == [OWNER]
        assert metadata["labels"][STORE_LABEL] == STORE
        assert metadata["namespace"] == "shop"


def test_pods_run_restricted() -> None:
    spec = template()["spec"]
    assert spec["securityContext"]["runAsNonRoot"]
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    context = container()["securityContext"]
    assert context["readOnlyRootFilesystem"]
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert not context["allowPrivilegeEscalation"]
    assert not spec["automountServiceAccountToken"], "who checks nobody needs no token"


def test_the_set_never_restarts_pods_and_never_deletes_volumes() -> None:
    spec = stateful_set(NAMES, OWNER, spec_of(access=OPEN), DEFAULTS, 3)["spec"]
    assert spec["updateStrategy"] == {"type": "OnDelete"}
    assert spec["podManagementPolicy"] == "Parallel"
    assert spec["persistentVolumeClaimRetentionPolicy"] == {
        "whenDeleted": "Retain",
        "whenScaled": "Retain",
    }


def test_the_template_says_its_own_hash_which_only_what_pods_are_made_of_changes() -> None:
    def digest(**spec: Any) -> str:
        found: str = template(**spec)["metadata"]["annotations"][TEMPLATE_ANNOTATION]
        return found

    assert digest() == digest(partitions=12), "no pod is restarted for that"
    assert digest() != digest(pod={"image": "store:2"})
    assert digest() != digest(pod={"resources": {"limits": {"memory": "2Gi"}}})


def test_what_the_spec_adds_to_pods_is_there() -> None:
    given = {
        "image": "mine:1",
        "nodeSelector": {"disk": "fast"},
        "tolerations": [{"key": "dedicated", "operator": "Exists"}],
        "affinity": {"podAntiAffinity": {}},
        "priorityClassName": "high",
        "labels": {"team": "flights", STORE_LABEL: "other"},
        "annotations": {"note": "x"},
        "env": [{"name": "QSS_STREAMS_MAX", "value": "8"}],
        "resources": {"limits": {"memory": "2Gi"}},
    }
    made = template(pod=given)
    spec, only = made["spec"], made["spec"]["containers"][0]
    assert only["image"] == "mine:1"
    assert only["resources"] == {
        "requests": {"cpu": "100m", "memory": "2Gi"},
        "limits": {"memory": "2Gi"},
    }
    assert {"name": "QSS_STREAMS_MAX", "value": "8"} in only["env"]
    assert spec["nodeSelector"] == {"disk": "fast"}
    assert spec["tolerations"] == [{"key": "dedicated", "operator": "Exists"}]
    assert spec["affinity"] == {"podAntiAffinity": {}}
    assert spec["priorityClassName"] == "high"
    assert made["metadata"]["labels"]["team"] == "flights"
    assert made["metadata"]["labels"][STORE_LABEL] == STORE, "a label that we need is ours"
    assert made["metadata"]["annotations"]["note"] == "x"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"limits": {"memory": "1Gi"}, "requests": {"cpu": "100m", "memory": "768Mi"}}),
        (
            {"limits": {"cpu": "2"}},
            {
                "limits": {"memory": "1Gi", "cpu": "2"},
                "requests": {"cpu": "2", "memory": "768Mi"},
            },
        ),
        ({"requests": {"memory": "4Gi"}}, {"requests": {"cpu": "100m", "memory": "4Gi"}}),
        (
            {"limits": {"memory": "512Mi"}},
            {"limits": {"memory": "512Mi"}, "requests": {"cpu": "100m", "memory": "512Mi"}},
        ),
    ],
)
def test_a_pod_has_a_memory_limit_unless_the_store_names_memory(
    given: dict[str, Any], expected: dict[str, Any]
) -> None:
    only = template(pod={"resources": given})["spec"]["containers"][0]
    assert only["resources"] == expected


def test_kubectl_explain_tells_the_resources_that_a_pod_gets_by_default() -> None:
    crd = yaml.safe_load(CRD_FILE.read_text())
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    told = schema["properties"]["pod"]["properties"]["resources"]
    got = container()["resources"]
    requests, limits = got["requests"], got["limits"]
    assert (
        f"named neither in limits nor in requests it asks for {requests['memory']} "
        f"and has a limit of {limits['memory']}."
    ) in told["description"]
    assert (
        f"What is not given is cpu {requests['cpu']} and memory {requests['memory']}, "
        "or the limit where there is one."
    ) in told["properties"]["requests"]["description"]
    assert (
        f"Memory is {limits['memory']} where neither limits nor requests name it"
        in told["properties"]["limits"]["description"]
    )


def test_pods_check_callers_unless_it_is_written_down_that_they_need_not() -> None:
    assert not any(argument.startswith("--authentication") for argument in arguments(access=OPEN))
    checked = arguments()
    assert "--authentication=serviceaccount" in checked
    assert "--operator-service-account=system/operator" in checked
    assert "--peer-service-account=word-counts-pods" in checked
    spec = pod_template(NAMES, spec_of(), DEFAULTS)["spec"]
    assert spec["automountServiceAccountToken"], "pods ask the API server who calls"
    token = next(one for one in spec["volumes"] if one["name"] == "token")
    source = token["projected"]["sources"][0]["serviceAccountToken"]
    assert source["audience"] == "queryablestate.dev/shop/word-counts"


def test_pods_know_the_uid_of_the_resource_that_they_are_made_for() -> None:
    made = stateful_set(NAMES, {**OWNER, "uid": "of-now"}, spec_of(), DEFAULTS, 3)
    env = made["spec"]["template"]["spec"]["containers"][0]["env"]
    assert {"name": "QSS_RESOURCE_UID", "value": "of-now"} in env


@pytest.mark.parametrize(
    ("pod", "most", "least"),
    [
        ({}, "10", "2"),
        ({"terminationGracePeriodSeconds": 8}, "4", "2"),
        ({"terminationGracePeriodSeconds": 1}, "0.5", "0.5"),
        ({"env": [{"name": "QSS_LEAVE_MAX_S", "value": "3"}]}, "3", "2"),
        ({"env": [{"name": "QSS_LEAVE_MIN_S", "value": "0"}]}, "10", "0"),
    ],
)
def test_a_pod_that_is_ended_serves_on_for_less_than_its_grace_period(
    pod: dict[str, Any], most: str, least: str
) -> None:
    [container] = pod_template(NAMES, spec_of(pod=pod), DEFAULTS)["spec"]["containers"]
    given = [(one["name"], one["value"]) for one in container["env"] if "LEAVE" in one["name"]]
    assert sorted(given) == [("QSS_LEAVE_MAX_S", most), ("QSS_LEAVE_MIN_S", least)]


def test_pods_take_the_stores_own_audience_and_the_common_one_of_readers_where_it_is_allowed() -> (
    None
):
    def told(**access: Any) -> list[str]:
        return [one for one in arguments(access=access) if "audience" in one]

    own = "--token-audience=queryablestate.dev/shop/word-counts"
    assert told() == [own]
    assert told(commonAudience=True) == [own, "--common-audience=queryablestate.dev"]
    assert told(authentication="None", commonAudience=True) == []


def test_a_certificate_is_mounted_and_changes_the_addresses() -> None:
    secret = {"authentication": "None", "tlsSecretName": "words-tls"}
    spec = pod_template(NAMES, spec_of(access=secret), DEFAULTS)["spec"]
    assert {"name": "tls", "secret": {"secretName": "words-tls"}} in spec["volumes"]
    assert "--tls-dir=/etc/queryablestate/tls" in spec["containers"][0]["args"]
    names = StoreNames(namespace="shop", store=STORE, scheme="https")
    assert names.address(1).query == "https://word-counts-1.word-counts-pods.shop.svc:8080"


def test_no_second_pod_may_go_while_a_partition_is_not_served() -> None:
    def budget(*, may_evict_one: bool) -> Any:
        made = beside_pods(NAMES, OWNER, AccessSpec(), DEFAULTS, may_evict_one=may_evict_one)
        return next(body["spec"] for kind, body in made if kind.kind == "PodDisruptionBudget")

    assert budget(may_evict_one=True)["maxUnavailable"] == 1
    assert budget(may_evict_one=False)["maxUnavailable"] == 0
    assert budget(may_evict_one=False)["unhealthyPodEvictionPolicy"] == "AlwaysAllow"


def peers_of(access: AccessSpec, defaults: PodDefaults = DEFAULTS) -> dict[int, Any]:
    """The peers that the policy lets in, by port."""
    made = beside_pods(NAMES, OWNER, access, defaults, may_evict_one=True)
    policy = next(body["spec"] for kind, body in made if kind.kind == "NetworkPolicy")
    return {rule["ports"][0]["port"]: rule["from"] for rule in policy["ingress"]}


def test_who_reaches_the_ports_for_queries_and_metrics_is_said_by_the_resource() -> None:
    everybody = peers_of(AccessSpec())
    assert everybody[8080] == everybody[8082] == [{"namespaceSelector": {}}]
    web = {"podSelector": {"matchLabels": {"app": "web"}}}
    monitoring = {"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}
    some = peers_of(msgspec.convert({"queryFrom": [web], "metricsFrom": [monitoring]}, AccessSpec))
    own_pods = {"podSelector": {"matchLabels": {STORE_LABEL: STORE}}}
    writers = next(one for one in some[8081] if "queryablestate.dev/writer" in str(one))
    assert some[8080] == [web, own_pods, writers], "a job asks there where to write"
    assert some[8082] == [monitoring]
    assert some[8081] == everybody[8081]


def test_only_who_needs_the_changelog_port_reaches_it() -> None:
    peers = peers_of(AccessSpec())
    labels = [str(peer.get("podSelector")) for peer in peers[8081]]
    assert any(STORE_LABEL in label for label in labels)
    assert any("queryablestate.dev/writer" in label for label in labels)
    assert len(labels) == 3
    assert all("podSelector" in peer for peer in peers[8081])


def test_the_operator_is_let_in_by_its_namespace_and_release() -> None:
    told = PodDefaults(
        image="store:1", operator_service_account="system/operator", operator_release="qss"
    )
    assert peers_of(AccessSpec(), told)[8081][-1] == {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "system"}},
        "podSelector": {
            "matchLabels": {
                "app.kubernetes.io/name": "queryable-state-operator",
                "app.kubernetes.io/instance": "qss",
            }
        },
    }
    outside = peers_of(AccessSpec(), PodDefaults(image="store:1"))[8081]
    assert all("namespaceSelector" not in peer for peer in outside), "of no other namespace"


def test_pods_have_what_a_platform_asks_for() -> None:
    spread = {"maxSkew": 2, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"}
    pod = {
        "imagePullSecrets": [{"name": "own"}, {"name": "all"}],
        "topologySpreadConstraints": [spread],
        "terminationGracePeriodSeconds": 120,
    }
    defaults = PodDefaults(image="store:1", image_pull_secrets=("all",))
    made = pod_template(NAMES, spec_of(access=OPEN, pod=pod), defaults)["spec"]
    assert made["imagePullSecrets"] == [{"name": "all"}, {"name": "own"}]
    selector = {"labelSelector": {"matchLabels": NAMES.labels()}}
    assert made["topologySpreadConstraints"] == [{**spread, **selector}]
    assert made["terminationGracePeriodSeconds"] == 120
    assert (
        template(pod={"topologySpreadConstraints": []})["spec"]["topologySpreadConstraints"] == []
    )
    usual = template()["spec"]
    assert "imagePullSecrets" not in usual
    assert usual["terminationGracePeriodSeconds"] == 60
    assert len(usual["topologySpreadConstraints"]) == 2


def test_a_cluster_may_choose_as_whom_pods_run() -> None:
    """OpenShift's restricted-v2 refuses a user that is not in the namespace's range."""
    always = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    assert template(pod={"securityContext": {}})["spec"]["securityContext"] == always
    own = template(pod={"securityContext": {"runAsUser": 7, "fsGroup": 8}})["spec"]
    assert own["securityContext"] == {**always, "runAsUser": 7, "fsGroup": 8}
    nobody = PodDefaults(image="store:1", user=None)
    made = pod_template(NAMES, spec_of(access=OPEN), nobody)["spec"]
    assert made["securityContext"] == always
    assert template()["spec"]["securityContext"]["runAsUser"] == 10001


def test_annotations_stand_on_the_service_for_queries_alone() -> None:
    access = AccessSpec(service_annotations={"example.com/zone": "internal"})
    made = beside_pods(NAMES, OWNER, access, DEFAULTS, may_evict_one=True)
    found = {
        body["metadata"]["name"]: body["metadata"].get("annotations")
        for kind, body in made
        if kind.kind == "Service"
    }
    assert found == {STORE: {"example.com/zone": "internal"}, f"{STORE}-pods": None}


@pytest.mark.parametrize(
    ("variable", "access", "value"),
    [
        ("QSS_CONSOLE", {"console": False}, "0"),
        (
            "QSS_ALLOWED_ORIGINS",
            {"allowedOrigins": ["https://console.example", "http://localhost:5173"]},
            "https://console.example,http://localhost:5173",
        ),
    ],
)
def test_only_a_store_that_says_something_of_pages_says_it_to_its_pods(
    variable: str, access: dict[str, Any], value: str
) -> None:
    def said(**access: Any) -> list[str]:
        spec = spec_of(access={**OPEN, **access}, pod={"env": env})
        made = pod_template(NAMES, spec, DEFAULTS)["spec"]["containers"][0]["env"]
        return [one["value"] for one in made if one["name"] == variable]

    env: list[dict[str, str]] = []
    usual = said(console=True, allowedOrigins=[])
    assert said() == usual == [], "pods of other stores are not made anew"
    assert said(**access) == [value]
    env = [{"name": variable, "value": "1"}]
    assert said(**access) == ["1"], "the variables of the spec have the last word"
