"""checkov over the rendered chart, over the objects of a store, and over the Dockerfiles.

Each accepted finding is listed here with its reason; any other finding fails a test.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.chart_values import RELEASE
from e2e.environment import CHART, ROOT
from e2e.kubectl import Cluster, CommandError
from e2e.stores import small_store
from qss_core.model import StoreName
from qss_core.spec.resource import decode_spec
from qss_operator.kubernetes.names import StoreNames
from qss_operator.kubernetes.objects.children import beside_pods, owner_of, stateful_set
from qss_operator.kubernetes.objects.pod_template import PodDefaults
from qss_operator.resources.validation import check_resource

Object = dict[str, Any]
CHECKOV = ROOT / ".checkov" / "bin" / "checkov"
IMAGES = ("operator", "store-pod", "spark-jobs", "spark-jobs/examples/compose")

_NO_CPU_LIMIT = "a limit of CPU stalls the event loop while cores are idle; requests are set"
_TAG = "an installation may name images by digest; the default is the tag of the release"
_PULL = "a tag of a release never changes: a pull at each start only adds a cause of failure"
_TOKEN = "the pod sends requests to the API server: a store pod asks for reviews of its callers"
_TEST_POD = "the pod of `helm test` sends one request and ends"

IN_CLUSTER = {
    ("CKV_K8S_11", "Deployment"): _NO_CPU_LIMIT,
    ("CKV_K8S_15", "Deployment"): _PULL,
    ("CKV_K8S_38", "Deployment"): _TOKEN,
    ("CKV_K8S_43", "Deployment"): _TAG,
    ("CKV_K8S_8", "Pod"): _TEST_POD,
    ("CKV_K8S_9", "Pod"): _TEST_POD,
    ("CKV_K8S_11", "Pod"): _NO_CPU_LIMIT,
    ("CKV_K8S_15", "Pod"): _PULL,
    ("CKV_K8S_43", "Pod"): _TAG,
    ("CKV2_K8S_6", "Pod"): _TEST_POD,
    ("CKV_K8S_11", "StatefulSet"): _NO_CPU_LIMIT,
    ("CKV_K8S_13", "StatefulSet"): "spec.pod.resources sets it; by default only a request is made",
    ("CKV_K8S_15", "StatefulSet"): _PULL,
    ("CKV_K8S_38", "StatefulSet"): _TOKEN,
    ("CKV_K8S_43", "StatefulSet"): _TAG,
}
IN_IMAGES = {
    "CKV_DOCKER_2": "kubelets use probes, and ignore HEALTHCHECK",
    "CKV_DOCKER_7": "the base is the argument BASE, whose default has a digest",
}


def failed(cluster: Cluster, framework: str, *files: Path) -> list[Object]:
    assert CHECKOV.exists(), "make checkov installs it"
    options = ["--quiet", "--compact", "--skip-download", "--soft-fail", "--output", "json"]
    names = ["--file", *map(str, files)]
    try:
        said = cluster.run(str(CHECKOV), "--framework", framework, *options, *names, timeout_s=120)
    except CommandError as error:
        pytest.fail(str(error))
    report = json.loads(said)
    assert report["summary"]["parsing_errors"] == 0
    found: list[Object] = report["results"]["failed_checks"]
    return found


def objects_of_a_store() -> list[Object]:
    """The objects that the operator applies for a store."""
    resource, problems = check_resource(small_store("words", replicas=3))
    assert problems == []
    names = StoreNames(namespace="shop", store=StoreName("words"))
    owner = owner_of({"metadata": {"name": "words", "uid": "uid"}})
    spec = decode_spec(resource["spec"])
    defaults = PodDefaults(image="queryable-state/store:0.1.0")
    made = [
        {"apiVersion": kind.api_version, "kind": kind.kind, **body}
        for kind, body in beside_pods(names, owner, spec.access, defaults, may_evict_one=True)
    ]
    set_ = stateful_set(names, owner, spec, defaults, 3)
    return [*made, {"apiVersion": "apps/v1", "kind": "StatefulSet", **set_}]


def test_objects_of_a_cluster_fail_no_check_without_a_reason(
    cluster: Cluster, tmp_path: Path
) -> None:
    kinds = ("serviceMonitor", "podMonitor", "prometheusRule", "dashboard")
    sets = [f"--set=metrics.{kind}.create=true" for kind in kinds]
    chart = cluster.within("system").helm("template", RELEASE, str(CHART), *sets)
    (tmp_path / "chart.yaml").write_text(chart)
    (tmp_path / "store.yaml").write_text(yaml.safe_dump_all(objects_of_a_store()))
    files = [tmp_path / "chart.yaml", tmp_path / "store.yaml"]
    found = failed(cluster, "kubernetes", *files)
    said = {(one["check_id"], one["resource"].partition(".")[0]): one for one in found}
    assert set(said) == set(IN_CLUSTER), {
        where: one["check_name"] for where, one in said.items() if where not in IN_CLUSTER
    }


def test_dockerfiles_fail_no_check_without_a_reason(cluster: Cluster) -> None:
    found = failed(cluster, "dockerfile", *(ROOT / name / "Dockerfile" for name in IMAGES))
    assert {one["check_id"] for one in found} == set(IN_IMAGES)
