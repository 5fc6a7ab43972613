"""Pods and operators of the version before and of this one, in both orders, up and down again.

A client writes and reads during each step. No request of it may fail, no batch may be lost or
applied twice, and what cannot be done is said in the status.
"""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

import pytest

from e2e.clients import PodClient, start_client
from e2e.environment import CHART, Before, Images, Tell, find_before
from e2e.kubectl import Cluster
from e2e.namespaces import fresh_namespace
from e2e.releases import install
from e2e.stores import (
    condition,
    has_another,
    is_ready,
    is_redundant,
    is_up,
    pods_of,
    says,
    small_store,
    uids_of,
)
from qss_testing.waiting import wait_until

# The last version without standbys.
BEFORE = "c5a02872"
STORE = "words"
ROWS = 300
# A pod without a standby ends, starts again and opens its databases.
_RESTARTED_S = 60.0
_FAILED_OVER_S = 1.1 * 5.0 + 2.0
_CALM_S = 5.0

pytestmark = pytest.mark.usefixtures("own_bed")
Used = Callable[[str, float], AbstractContextManager[None]]
Deploy = Callable[[str, str], None]


@pytest.fixture(scope="module")
def before(images: Images) -> Before:
    """The images and the chart of the version before."""
    assert images.store
    return find_before(BEFORE)


@pytest.fixture(scope="module")
def deploy(
    cluster: Cluster, namespace: Cluster, images: Images, before: Before
) -> Iterator[Deploy]:
    """Installs an operator and says of which version pods are to be: "before" or "now"."""
    of_operator = {"before": before.operator, "now": images.operator}
    of_store = {"before": before.store, "now": images.store}
    charts = {"before": before.chart, "now": CHART}
    with fresh_namespace(cluster, f"{namespace.namespace}-system") as system:

        def run(operator: str, pods: str, *options: str) -> None:
            given = Images(store=of_store[pods], operator=of_operator[operator], spark=images.spark)
            watched = {"watch.namespaces": f"{{{namespace.namespace}}}"}
            install(system, given, *options, values=watched, chart=charts[operator])

        # The CRD of this version may be there, applied by kubectl.
        run("before", "before", "--force-conflicts")
        yield run
        namespace.kubectl("delete", "qss", "--all", "--timeout=120s", timeout_s=130)


@pytest.fixture(scope="module")
def client(namespace: Cluster, images: Images) -> PodClient:
    """A client of this version, which uses pods of both."""
    return start_client(namespace, images.store)


class Batches:
    """The batches that the client was told are committed."""

    count = 0


@pytest.fixture(scope="module")
def batches(namespace: Cluster, client: PodClient) -> Batches:
    """A store of two pods on which nothing is restarted yet, with 300 rows in one batch."""
    spec = {"rebalance": {"paused": True}, "access": {"authentication": "None"}}
    namespace.apply(small_store(STORE, replicas=2, partitions=4, **spec))
    namespace.until(f"qss/{STORE}", is_ready)
    client.write(STORE, ROWS, 1)
    made = Batches()
    made.count = 1
    return made


@pytest.fixture
def used(namespace: Cluster, client: PodClient, batches: Batches, tell: Tell) -> Used:
    """Writes and reads while a block runs, and compares every key and every batch after it."""
    return partial(_used, namespace, client, batches, tell)


@contextmanager
def _used(
    here: Cluster, client: PodClient, batches: Batches, tell: Tell, step: str, most_s: float
) -> Iterator[None]:
    began = time.monotonic()
    with client.keeping(STORE) as story:
        yield
    told: dict[str, Any] = story.told()
    tell(
        f"{step}, {time.monotonic() - began:.0f} s: {told['writes']} writes, {told['reads']} reads,"
        f" {len(told['failures'])} failed, the slowest {told['slowest_s']} s"
    )
    assert (told["wrong"], told["failures"]) == ([], [])
    assert told["slowest_s"] < most_s, told
    batches.count += told["writes"]
    rows = client.read_actives(STORE)
    kept = {key: value for key, value in rows.items() if key.startswith("kept-")}
    assert set(kept.values()) == {told["writes"] - 1}
    assert {key: value for key, value in rows.items() if key not in kept} == {
        f"key-{one}": 1 for one in range(ROWS)
    }
    # A batch that was applied twice has two sequences.
    assert sequences(here, "active") == {batches.count}
    ended = time.monotonic()
    wait_until(lambda: sequences(here, "active", "standby") == {batches.count}, 30.0)
    tell(f"{step}: standbys are level {time.monotonic() - ended:.1f} s after the client's end")


def sequences(here: Cluster, *roles: str) -> set[int]:
    """The sequences of replicas, as their pods report them to an operator of before."""
    found: set[int] = set()
    for pod in filter(is_up, pods_of(here, STORE)):
        name = pod["metadata"]["name"]
        path = f"/api/v1/namespaces/{here.namespace}/pods/{name}:8081/proxy/control/replicas"
        report = json.loads(here.kubectl("get", "--raw", path))
        found |= {one["sequence"] for one in report["replicas"] if one["role"] in roles}
    return found


def images_of(here: Cluster) -> set[str]:
    """The images of the store's pods."""
    return {pod["spec"]["containers"][0]["image"] for pod in pods_of(here, STORE)}


def change(here: Cluster, **spec: Any) -> None:
    """Changes members of the store's spec."""
    here.patch(f"qss/{STORE}", {"spec": spec})


def test_the_operator_is_upgraded_first_and_then_the_pods(
    namespace: Cluster, deploy: Deploy, used: Used, images: Images, before: Before
) -> None:
    assert images_of(namespace) == {before.store}
    with used("operator now, pods before", _CALM_S):
        deploy("now", "now")
        namespace.until(f"qss/{STORE}", says("Progressing", "Paused", "0 of 2 pods"))
        change(namespace, standbys=1)
        waits = says("Rebalancing", "WaitingForPods", "restart with a program that has standbys")
        namespace.until(f"qss/{STORE}", waits)
        lacks = "runs a version without standbys: use a newer image"
        namespace.until(f"qss/{STORE}", says("Degraded", "FewerStandbys", lacks))
        assert is_ready(namespace.get("qss", STORE))
        assert images_of(namespace) == {before.store}
    with used("operator now, a pod of each version", _RESTARTED_S):
        name, uid = list(uids_of(namespace, STORE).items())[1]
        namespace.kubectl("delete", "pod", name, "--timeout=60s", timeout_s=70)
        wait_until(lambda: has_another(namespace, STORE, name, uid))
        namespace.until(f"qss/{STORE}", is_ready)
        assert images_of(namespace) == {before.store, images.store}
        waits = says("Rebalancing", "WaitingForPods", f"{STORE}-0 to restart")
        namespace.until(f"qss/{STORE}", waits)
    with used("operator now, pods now", _RESTARTED_S):
        change(namespace, rebalance={"paused": False})
        namespace.until(f"qss/{STORE}", is_redundant, 240.0)
        assert images_of(namespace) == {images.store}


def test_pods_do_not_go_back_behind_their_volumes(
    namespace: Cluster, deploy: Deploy, used: Used, images: Images, before: Before, tell: Tell
) -> None:
    """The first pod that gets the older program cannot start; the other one serves on."""
    with used("operator now, a pod back at before", _FAILED_OVER_S):
        deploy("now", "before")
        # The end of the log of a program that does not know what its volume says.
        refused = says("Degraded", "PodsFailing", "Object contains unknown field")
        store = namespace.until(f"qss/{STORE}", refused, 240.0)
        tell(condition(store, "Degraded")["message"])
        tell(condition(store, "Progressing")["message"])
        assert images_of(namespace) == {before.store, images.store}
    with used("operator now, pods now again", _FAILED_OVER_S):
        deploy("now", "now")
        namespace.until(f"qss/{STORE}", is_redundant, 240.0)
        assert images_of(namespace) == {images.store}


def test_the_operator_goes_back_while_the_pods_stay(
    namespace: Cluster, deploy: Deploy, used: Used, images: Images
) -> None:
    """Without standbys, since an older operator lets none take over; then all goes up again."""
    with used("without standbys", _FAILED_OVER_S):
        change(namespace, standbys=0)
        namespace.until(f"qss/{STORE}", lambda found: found["status"].get("inSync") == "4/4")
        namespace.until(f"qss/{STORE}", says("Rebalancing", "NothingToMove"))
        change(namespace, rebalance={"paused": True})
    with used("operator before, pods now", _CALM_S):
        deploy("before", "now")
        change(namespace, changelog={"retention": "23h"})
        namespace.until(f"qss/{STORE}", is_ready)
        namespace.until(f"qss/{STORE}", says("Degraded", "Healthy"))
        assert images_of(namespace) == {images.store}
    with used("operator now, pods now", _RESTARTED_S):
        deploy("now", "now")
        change(namespace, standbys=1, rebalance={"paused": False})
        namespace.until(f"qss/{STORE}", is_redundant, 240.0)
