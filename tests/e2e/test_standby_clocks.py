"""The clock of a node steps by an hour and back, below a store with standbys and its operator.

Leases, terms and deadlines go by a clock that does not step, so nobody takes over. The time of the
day decides about ages alone: of tokens, batches and versions of rows.
"""

import json
import time
from collections.abc import Iterator
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

import pytest

from e2e.clients import PodClient
from e2e.disturbances import nodes_of
from e2e.environment import Tell, on_testbed
from e2e.kubectl import Cluster, Object
from e2e.releases import RELEASE, holder, leader
from e2e.standby_store import LEASE_S, STORE, Used, make_store
from e2e.stores import RESOURCES, actives_of, is_redundant, pods_of, small_store, told
from qss_client.clock import SystemClock
from qss_testing.waiting import wait_until

pytestmark = pytest.mark.usefixtures("own_bed")

_AN_HOUR_S = 3600
_ROUGHLY_S = 20.0  # The answers of a busy machine come late.
# Pods ask again about a token after a part of this time, so each step lasts for such questions.
_VERDICTS = [{"name": "QSS_ACCESS_POSITIVE_S", "value": "12"}]
# Rows without a time have that of their batch; a version that is replaced is kept for a minute.
_HISTORY, _KEYS = "history", 20
_VERSIONED = {
    "type": "Versioned",
    "key": {"serde": "string"},
    "value": {"serde": "json"},
    "versioned": {"historyRetention": "1m"},
}
_LOOK = """
import json, time, urllib.request
answer = urllib.request.urlopen("http://127.0.0.1:8082/metrics")
lines = [line.split() for line in answer.read().decode().splitlines() if line[0] != "#"]
reviews = sum(float(n) for name, n in lines if 'qss_access_reviews_total{result="allowed"' in name)
active = sum(float(n) for name, n in lines if name == 'qss_replicas{role="active"}')
print(json.dumps({
    "wall": time.time(), "monotonic": time.monotonic(), "served": answer.headers["Date"],
    "reviews": reviews, "active": active,
}))
"""


@pytest.fixture(scope="module")
def clocks(cluster: Cluster) -> Iterator[list[str]]:
    """The nodes, each with a clock of its own, which is right at first."""
    nodes = nodes_of(cluster)
    for node in nodes:
        step(node, 0)
    yield nodes
    for node in nodes:
        on_testbed("clock", node.removeprefix("node"), "off")


@pytest.fixture(scope="module", autouse=True)
def store(clocks: list[str], here: Cluster, client: PodClient) -> None:
    """The store, its operator, its client and a store of versions began with those clocks."""
    assert clocks
    pod = {"env": _VERDICTS, "resources": RESOURCES}
    make_store(here, client, pod=pod)
    here.until(f"qss/{STORE}", lambda found: actives_of(found) == {*range(4)})
    here.apply(small_store(_HISTORY, replicas=2, standbys=1, store=_VERSIONED, pod=pod))
    here.until(f"qss/{_HISTORY}", is_redundant)
    client.write(_HISTORY, 2 * _KEYS, 0)


def test_a_clock_that_steps_by_an_hour_and_back_changes_no_role_and_no_answer(
    here: Cluster,
    own_operator: Cluster,
    client: PodClient,
    clocks: list[str],
    used: Used,
    tell: Tell,
) -> None:
    """On each node in turn, so also below the operator and the coordinator of the batches."""
    roles, leads = roles_of(here), holder(own_operator)
    steps = 0
    with used(LEASE_S):  # No request waits as long as for a failover.
        for node in clocks:
            for ahead_s in (_AN_HOUR_S, -_AN_HOUR_S, 0):
                step(node, ahead_s)
                steps += 1
                if node == node_of(own_operator, leader(own_operator)):
                    wait_until(lambda ahead_s=ahead_s: is_lease_ahead(own_operator, ahead_s))  # type: ignore[misc]
                live_for_some_verdicts(here, node, ahead_s)
                assert roles_of(here) == roles
                assert sum(one["active"] for one in looks(here).values()) == len(roles)
                assert holder(own_operator) == leads
                client.write(_HISTORY, _KEYS, steps)
                assert client.read_newest(_HISTORY, 2 * _KEYS) == versions_after(steps)
            tell(
                f"{node} was an hour ahead, then an hour behind; epochs stayed {roles[0]['epoch']}"
            )
    assert not {"FailedOver", "LeftInSync", "HandedOver"} & told(here, STORE)


def versions_after(steps: int) -> dict[str, int]:
    """The newest versions: a batch is never older than the one before, and the newest stays."""
    return {f"key-{one}": steps if one < _KEYS else 0 for one in range(2 * _KEYS)}


def step(node: str, ahead_s: int) -> None:
    """Steps the clock of a node."""
    on_testbed("clock", node.removeprefix("node"), str(ahead_s))


def roles_of(here: Cluster) -> list[Object]:
    """The roles and epochs of all partitions: each change, such as a failover, has a new epoch."""
    store = here.get("qss", STORE)
    assert is_redundant(store)
    roles: list[Object] = store["status"]["assignment"]
    return roles


def node_of(here: Cluster, pod: str) -> str:
    name: str = here.get("pod", pod)["spec"]["nodeName"]
    return name


def is_lease_ahead(system: Cluster, ahead_s: int) -> bool:
    """Whether the operator's process has renewed its Lease by the clock of its node."""
    renewed: str = system.get("lease", f"{RELEASE}-queryable-state")["spec"]["renewTime"]
    return is_ahead(datetime.fromisoformat(renewed).timestamp(), ahead_s)


def live_for_some_verdicts(here: Cluster, node: str, ahead_s: int) -> None:
    """Waits until the processes on the node see the step, and have asked about tokens since."""
    on_it = {
        pod["metadata"]["name"] for pod in pods_of(here, STORE) if pod["spec"]["nodeName"] == node
    }
    assert on_it, "a pod has this clock"

    def see_it() -> dict[str, dict[str, Any]] | None:
        found = looks(here)
        assert all(abs(one["monotonic"] - time.monotonic()) < _ROUGHLY_S for one in found.values())
        right = all(
            is_ahead(one["wall"], off_s) and is_ahead(one["served_s"], off_s)
            for name, one in found.items()
            for off_s in [ahead_s if name in on_it else 0]
        )
        return found if right else None

    first = wait_until(see_it)
    began_s = time.monotonic()

    def have_asked() -> bool:
        now = looks(here)
        return time.monotonic() - began_s > 2 * LEASE_S and all(
            now[name]["reviews"] > first[name]["reviews"] + 2 for name in on_it
        )

    wait_until(have_asked, 90.0)


def looks(here: Cluster) -> dict[str, dict[str, Any]]:
    """Of each pod: clocks of a new process, the clock and metrics of the one that serves."""
    found: dict[str, dict[str, Any]] = {}
    for pod in pods_of(here, STORE):
        name = pod["metadata"]["name"]
        look = json.loads(here.kubectl("exec", name, "--", "python", "-c", _LOOK))
        served_s = parsedate_to_datetime(look["served"]).timestamp()
        found[name] = {**look, "served_s": served_s}
    return found


def is_ahead(told_s: float, ahead_s: int) -> bool:
    """Whether a time is so far ahead of this machine's."""
    return abs(told_s - SystemClock().wall_ms() / 1000 - ahead_s) < _ROUGHLY_S
