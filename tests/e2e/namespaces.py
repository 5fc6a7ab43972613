"""Namespaces of the tests: known by a label, so that a later run finds what this one leaves."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from e2e.kubectl import Cluster, CommandError

LABEL = "queryablestate.dev/e2e"
_POD_SECURITY = "pod-security.kubernetes.io/enforce"


def clean(cluster: Cluster) -> None:
    """Deletes what earlier runs left: releases, stores, namespaces."""
    found = [
        cluster.within(one["metadata"]["name"])
        for one in cluster.items("namespaces", "--selector", LABEL)
    ]
    for here in found:
        for release in here.helm("list", "--short").split():
            here.helm("uninstall", release, "--wait", "--timeout", "60s")
    for here in found:
        _delete(here)


@contextmanager
def fresh_namespace(cluster: Cluster, name: str) -> Iterator[Cluster]:
    """A namespace that takes only restricted pods, while the block runs."""
    cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": {LABEL: "true", _POD_SECURITY: "restricted"}},
        }
    )
    here = cluster.within(name)
    try:
        yield here
    finally:
        _delete(here)


def _delete(here: Cluster) -> None:
    """Also where the operator that the stores' finalizers wait for is gone."""
    if here.find("crd", "queryablestatestores.queryablestate.dev") is not None:
        with suppress(CommandError):
            here.kubectl("delete", "qss", "--all", "--timeout=20s")
        for store in here.items("qss"):
            with suppress(CommandError):  # It may be gone by now.
                here.patch(f"qss/{store['metadata']['name']}", {"metadata": {"finalizers": None}})
    here.kubectl(
        "delete", "namespace", here.namespace, "--ignore-not-found", "--timeout=120s", timeout_s=150
    )
