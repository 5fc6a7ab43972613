"""The chart: every value, and the life of a release that has only the roles of the chart."""

import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.chart_values import CASES, RELEASE, Object
from e2e.clients import start_client
from e2e.environment import CHART, CRD, Images
from e2e.kubectl import Cluster, CommandError
from e2e.namespaces import fresh_namespace
from e2e.releases import (
    OPERATOR,
    cluster_objects,
    install,
    kept_objects,
    metrics,
    own_objects,
    running,
)
from e2e.stores import is_ready, pods_of, small_store
from qss_testing.waiting import wait_until


def templated(
    cluster: Cluster, *settings: str, release: str = RELEASE, namespace: str = "system"
) -> dict[tuple[str, str], Object]:
    sets = [f"--set={setting}" for setting in settings]
    text = cluster.within(namespace).helm("template", release, str(CHART), *sets)
    made = [one for one in yaml.safe_load_all(text) if one]
    return {(one["kind"], one["metadata"]["name"]): one for one in made}


def leaves(values: dict[str, Any], path: str = "") -> Iterator[str]:
    for name, value in values.items():
        if isinstance(value, dict) and value and name not in ("resources", "labels"):
            yield from leaves(value, f"{path}{name}.")
        else:
            yield f"{path}{name}"


def test_names_of_digits_are_texts(cluster: Cluster) -> None:
    """A release and a namespace may be called 123; a label or a namespace may be no number."""
    all_of_them = (
        "metrics.podMonitor.create=true",
        "metrics.prometheusRule.create=true",
        "metrics.dashboard.create=true",
    )
    for made in templated(cluster, *all_of_them, release="123", namespace="456").values():
        told = made["metadata"]
        texts = (told["name"], told.get("namespace", "456"), *told.get("labels", {}).values())
        assert all(isinstance(text, str) for text in texts), told


def test_lint_has_no_complaint(cluster: Cluster) -> None:
    cluster.helm("lint", "--strict", str(CHART))


def test_every_value_has_a_case() -> None:
    assert set(leaves(yaml.safe_load((CHART / "values.yaml").read_text()))) == set(CASES)


@pytest.mark.parametrize("value", CASES)
def test_a_value_changes_the_rendered_objects(value: str, cluster: Cluster) -> None:
    settings, holds = CASES[value]
    assert holds(templated(cluster, *settings))
    with suppress(KeyError):
        assert not holds(templated(cluster)), "the check also holds for the default"


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("operator.replicaz=2", "replicaz"),
        ("operator.logLevel=loud", "logLevel"),
        ("watch.namespaces={Shop}", "namespaces"),
        ("operator.replicas=many", "replicas"),
        ("image.repository=", "repository"),
        ("image.digest=sha256:abc", "digest"),
        ("watch.namespaces=null", "namespaces"),
        ("nameOverride=Short", "nameOverride"),
        ("fullnameOverride=Own", "fullnameOverride"),
        (r"commonLabels.app\.kubernetes\.io/name=mine", "app.kubernetes.io/name"),
        (r"operator.podLabels.app\.kubernetes\.io/name=mine", "app.kubernetes.io/name"),
        (
            "metrics.serviceMonitor.create=true,metrics.service.create=false",
            "needs metrics.service",
        ),
    ],
)
def test_a_bad_value_is_refused_by_name(setting: str, said: str, cluster: Cluster) -> None:
    with pytest.raises(CommandError, match=said):
        templated(cluster, setting)


def test_the_crd_is_that_of_this_tree_and_is_kept(cluster: Cluster) -> None:
    made = templated(cluster)["CustomResourceDefinition", "queryablestatestores.queryablestate.dev"]
    assert made["metadata"].pop("annotations") == {"helm.sh/resource-policy": "keep"}
    assert made == yaml.safe_load(CRD.read_text())


def test_no_role_has_a_wildcard_or_a_right_over_secrets_or_over_more_than_one_binding(
    cluster: Cluster,
) -> None:
    for (kind, _), one in {
        **templated(cluster),
        **templated(cluster, "watch.namespaces={a}"),
    }.items():
        for rule in one.get("rules", ()) if kind.endswith("Role") else ():
            assert "*" not in str(rule)
            if "rbac.authorization.k8s.io" in rule["apiGroups"]:
                assert rule["resourceNames"] == ["system-demo-queryable-state-store-pods"]
                assert set(rule["verbs"]) in ({"get", "patch"}, {"bind"})
            assert not {"secrets", "pods/exec", "pods"} & set(rule["resources"]) or rule[
                "resources"
            ] == ["pods"]


@pytest.mark.usefixtures("own_bed")
def test_an_upgrade_brings_the_newer_crd_and_image_to_existing_stores(
    cluster: Cluster, namespace: Cluster, images: Images, next_store_image: str, tmp_path: Path
) -> None:
    limited = small_store("older", replicas=2, stagedBytesMax="64Mi")
    with fresh_namespace(cluster, "qss-e2e-chart-older") as system:
        # A person or another test may own the fields of the CRD that are removed here.
        install(system, images, "--force-conflicts", chart=older_chart(tmp_path))
        assert 'unknown field "spec.stagedBytesMax"' in namespace.refusal(limited)
        namespace.apply(small_store("older", replicas=2))
        namespace.wait("qss/older", "condition=Ready")
        client = start_client(namespace, images.store)
        client.write("older", 100, 1)
        before = pod_uids(namespace, "older")

        install(system, replace(images, store=next_store_image))
        assert columns(cluster) == columns_of(yaml.safe_load(CRD.read_text()))
        namespace.apply(limited)
        wait_until(lambda: not set(before) & set(pod_uids(namespace, "older")), 120.0)
        namespace.until("qss/older", is_ready)
        running = {one["spec"]["containers"][0]["image"] for one in pods_of(namespace, "older")}
        assert running == {next_store_image}
        assert len(client.read("older")) == 100
        namespace.kubectl("delete", "qss/older", "--timeout=90s", timeout_s=100)
        system.helm("uninstall", "qss", "--wait", "--timeout=60s")
    cluster.kubectl("delete", *kept_objects(system), "--ignore-not-found")


def older_chart(directory: Path) -> Path:
    """The chart with a CRD without printer columns, and without one field."""
    chart = directory / "older"
    shutil.copytree(CHART, chart)
    file = chart / "files" / "queryablestatestores.yaml"
    crd = yaml.safe_load(file.read_text())
    version = crd["spec"]["versions"][0]
    del version["additionalPrinterColumns"]
    del version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["stagedBytesMax"]
    file.write_text(yaml.safe_dump(crd))
    return chart


def columns(cluster: Cluster) -> list[str]:
    return columns_of(cluster.get("crd", "queryablestatestores.queryablestate.dev"))


def columns_of(crd: Object) -> list[str]:
    shown = crd["spec"]["versions"][0].get("additionalPrinterColumns", ())
    return [one["name"] for one in shown]


@pytest.mark.parametrize("mode", ["cluster", "namespaced"])
def test_a_release_is_installed_upgraded_and_removed_completely(
    mode: str, cluster: Cluster, namespace: Cluster, images: Images
) -> None:
    before = cluster_objects(cluster)
    values = {"watch.namespaces": f"{{{namespace.namespace}}}"} if mode == "namespaced" else {}
    store = small_store(f"in-{mode}")
    name = store["metadata"]["name"]
    with fresh_namespace(cluster, f"qss-e2e-chart-{mode}") as system:
        install(system, images, values=values)
        system.helm("test", "qss", "--logs")
        namespace.apply(store)
        namespace.wait(f"qss/{name}", "condition=Ready")
        client = start_client(namespace, images.store)
        client.write(name, 100, 1)
        uids = pod_uids(namespace, name)
        reviewers = [f"{namespace.namespace}/{name}-pods"]
        assert reviewers_of(system) == reviewers, "only the account of the pods of the store"

        install(system, images, values={**values, "operator.logLevel": "debug"})
        system.wait(OPERATOR, "condition=Available")
        assert pod_uids(namespace, name) == uids, "an upgrade of the operator restarts no store"
        system.helm("rollback", "qss", "1", "--wait", "--timeout=120s")
        assert len(running(system)) == 2
        assert len(client.read(name)) == 100
        assert_all_work_was_permitted(system)

        system.helm("uninstall", "qss", "--wait", "--timeout=60s")
        # Stores still serve, also callers with tokens that the pods have not seen before.
        namespace.kubectl("delete", "pod", "client", "--wait", timeout_s=100)
        assert len(start_client(namespace, images.store).read(name)) == 100

        assert reviewers_of(system) == reviewers

        install(system, images, values=values)
        namespace.kubectl("delete", "qss", name, "--timeout=90s", timeout_s=100)
        wait_until(lambda: reviewers_of(system) == [], 30.0)
        system.helm("uninstall", "qss", "--wait", "--timeout=60s")
        wait_until(lambda: not own_objects(system), 60.0)
    kept = kept_objects(system)
    assert cluster_objects(cluster) - before <= kept
    cluster.kubectl("delete", *kept, "--ignore-not-found")
    assert cluster_objects(cluster) == before - kept
    assert cluster.find("crd", "queryablestatestores.queryablestate.dev") is not None


def reviewers_of(system: Cluster) -> list[str]:
    """The accounts that may ask for reviews by this release."""
    name = f"{system.namespace}-qss-queryable-state-store-pods"
    subjects = system.get("clusterrolebinding", name).get("subjects") or []
    return [f"{one.get('namespace')}/{one['name']}" for one in subjects]


def pod_uids(here: Cluster, store: str) -> list[str]:
    selector = f"queryablestate.dev/store={store}"
    return [one["metadata"]["uid"] for one in here.items("pods", "--selector", selector)]


def assert_all_work_was_permitted(system: Cluster) -> None:
    asked = [line for line in metrics(system) if "api_requests_total{" in line]
    assert asked
    refused = [line for line in asked if 'code="403"' in line]
    assert refused == []
