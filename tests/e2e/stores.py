"""Stores of the tests: small, and what they say of themselves."""

from collections.abc import Mapping
from typing import Any

from e2e.kubectl import Cluster, Object

_RESOURCES = {"requests": {"cpu": "20m", "memory": "96Mi"}}


def small_store(name: str, *, replicas: int = 1, partitions: int = 4, **spec: Any) -> Object:
    """A store that does not need much; every member of the spec can be given."""
    return {
        "apiVersion": "queryablestate.dev/v1alpha1",
        "kind": "QueryableStateStore",
        "metadata": {"name": name},
        "spec": {
            "store": {"type": "KeyValue", "key": {"serde": "string"}, "value": {"serde": "json"}},
            "partitions": partitions,
            "replicas": replicas,
            "storage": {"size": "1Gi"},
            "pod": {"resources": _RESOURCES},
            **spec,
        },
    }


def condition(store: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """A condition, as it was seen for the newest spec; empty where it was not."""
    for one in (store.get("status") or {}).get("conditions") or ():
        if one["type"] == kind and one["observedGeneration"] == store["metadata"]["generation"]:
            found: Mapping[str, Any] = one
            return found
    return {}


def says(kind: str, reason: str, *fragments: str) -> Any:
    """A question: whether a condition has this reason, and its message these texts."""

    def holds(store: Object) -> bool:
        found = condition(store, kind)
        message = found.get("message", "")
        return found.get("reason") == reason and all(one in message for one in fragments)

    return holds


def is_ready(store: Object) -> bool:
    """Whether every partition is served, for the newest spec."""
    return condition(store, "Ready").get("status") == "True"


def pods_of(here: Cluster, store: str) -> list[Object]:
    """The store's pods, in the order of their ordinals."""
    found = here.items("pods", "--selector", f"queryablestate.dev/store={store}")
    return sorted(found, key=lambda pod: int(pod["metadata"]["name"].rpartition("-")[2]))


def uids_of(here: Cluster, store: str) -> dict[str, str]:
    """Which pod, by name."""
    return {one["metadata"]["name"]: one["metadata"]["uid"] for one in pods_of(here, store)}
