"""Small stores for the tests, and checks of their status."""

from collections.abc import Mapping
from typing import Any

from e2e.kubectl import Cluster, Object
from qss_testing.waiting import wait_until

RESOURCES = {"requests": {"cpu": "20m", "memory": "96Mi"}}


def small_store(name: str, *, replicas: int = 1, partitions: int = 4, **spec: Any) -> Object:
    """A store with small requests; keyword arguments are members of its spec."""
    return {
        "apiVersion": "queryablestate.dev/v1alpha1",
        "kind": "QueryableStateStore",
        "metadata": {"name": name},
        "spec": {
            "store": {"type": "KeyValue", "key": {"serde": "string"}, "value": {"serde": "json"}},
            "partitions": partitions,
            "replicas": replicas,
            "standbys": 0,
            "storage": {"size": "1Gi"},
            "pod": {"resources": RESOURCES},
            **spec,
        },
    }


def condition(store: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """A condition for the newest spec; empty if there is none."""
    for one in (store.get("status") or {}).get("conditions") or ():
        if one["type"] == kind and one["observedGeneration"] == store["metadata"]["generation"]:
            found: Mapping[str, Any] = one
            return found
    return {}


def says(kind: str, reason: str, *fragments: str) -> Any:
    """A check that a condition has this reason, and its message these texts."""

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


def is_up(pod: Object) -> bool:
    """Whether the pod is ready and is not being deleted."""
    return "deletionTimestamp" not in pod["metadata"] and any(
        one["type"] == "Ready" and one["status"] == "True"
        for one in pod["status"].get("conditions", ())
    )


def uids_of(here: Cluster, store: str) -> dict[str, str]:
    """The uids of the pods by name."""
    return {one["metadata"]["name"]: one["metadata"]["uid"] for one in pods_of(here, store)}


def claims_of(here: Cluster, store: str) -> list[Object]:
    """The claims of the store."""
    return here.items("pvc", "--selector", f"queryablestate.dev/store={store}")


def has_grown(here: Cluster, store: str, size: str) -> bool:
    """Whether all volumes have this size, and the template has it for later pods."""
    sizes = {one["status"].get("capacity", {}).get("storage") for one in claims_of(here, store)}
    made = here.find(f"statefulset/{store}")
    return (
        sizes == {size}
        and made is not None
        and made["spec"]["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]
        == {"storage": size}
    )


def settled(here: Cluster, store: str) -> None:
    """Waits until all pods have the newest template and serve."""

    def is_settled() -> bool:
        found = here.find(f"statefulset/{store}")
        pods = pods_of(here, store)
        if found is None or len(pods) != 3:
            return False
        mark = "queryablestate.dev/template"
        wanted = found["spec"]["template"]["metadata"]["annotations"][mark]
        return all(one["metadata"]["annotations"].get(mark) == wanted for one in pods)

    wait_until(is_settled, 180.0)
    here.until(f"qss/{store}", is_ready, 180.0)


def is_observed(store: Object) -> bool:
    """Whether the operator has seen the newest spec."""
    return bool(store["status"]["observedGeneration"] == store["metadata"]["generation"])


def is_redundant(found: Object) -> bool:
    """Whether each partition has its active and its standbys in sync, and nothing is in trouble."""
    status = found.get("status", {})
    copies = 1 + status.get("standbys", 1)
    return (
        is_ready(found)
        and condition(found, "Degraded").get("reason") == "Healthy"
        and all(
            len(one["inSync"]) == len(one["replicas"]) == copies
            for one in status.get("assignment", ())
        )
    )


def has_another(here: Cluster, store: str, name: str, uid: str) -> bool:
    """Whether there is another pod of that name."""
    return uids_of(here, store).get(name, uid) != uid


def actives_of(found: Object) -> set[int]:
    """The numbers of the pods that lead partitions."""
    return {one["active"] for one in found["status"]["assignment"]}


def pod_of_most_actives(found: Object) -> int:
    """The number of the pod that leads most partitions."""
    led: list[int] = [one["active"] for one in found["status"]["assignment"]]
    return max(set(led), key=led.count)


def is_moving(found: Object) -> bool:
    """Whether replicas move, or wait to."""
    moving: str = found["status"]["moving"]
    return moving != "0/0"


def until_told(here: Cluster, store: str, reasons: set[str]) -> None:
    """Waits until there are events about the store with these reasons.

    One that is too many for its minute is written in the next one.
    """
    missing = set(reasons)

    def are_told() -> bool:
        missing.difference_update(told(here, store))
        return not missing

    try:
        wait_until(are_told, 70.0)
    except AssertionError as error:
        raise AssertionError(f"no event has the reason {sorted(missing)}") from error


def told(here: Cluster, store: str) -> set[str]:
    """The reasons of the events about a store."""
    about = (
        "--field-selector",
        f"involvedObject.kind=QueryableStateStore,involvedObject.name={store}",
    )
    return {one["reason"] for one in here.items("events", *about)}
