"""Namespaces of the tests, with a label by which a later run finds and deletes them."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from e2e.kubectl import Cluster, CommandError

LABEL = "queryablestate.dev/e2e"
_POD_SECURITY = "pod-security.kubernetes.io/enforce"


def clean(cluster: Cluster) -> None:
    """Deletes releases, stores and namespaces of earlier runs."""
    found = [
        cluster.within(one["metadata"]["name"])
        for one in cluster.items("namespaces", "--selector", LABEL)
    ]
    for here in found:
        for release in here.helm("list", "--short").split():
            here.helm("uninstall", release, "--wait", "--timeout", "60s")
    for here in found:
        _delete(here)
    for here in found:
        cluster.until_gone(f"namespace/{here.namespace}")


@contextmanager
def fresh_namespace(cluster: Cluster, name: str) -> Iterator[Cluster]:
    """A namespace that takes only restricted pods, while the block runs.

    Afterwards it is deleted beside the next tests; one of the same name waits until it is gone.
    """
    cluster.until_gone(f"namespace/{name}")
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
    """Deletes a namespace, even if no operator removes the finalizers of its stores."""
    if here.find("crd", "queryablestatestores.queryablestate.dev") is not None:
        with suppress(CommandError):
            here.kubectl("delete", "qss", "--all", "--timeout=20s")
        for store in here.items("qss"):
            with suppress(CommandError):  # The store may be deleted by now.
                here.patch(f"qss/{store['metadata']['name']}", {"metadata": {"finalizers": None}})
    here.kubectl("delete", "namespace", here.namespace, "--ignore-not-found", "--wait=false")
