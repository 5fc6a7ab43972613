"""NetworkPolicies of stores and of the chart, enforced by the nodes of the test bed.

A client writes and reads meanwhile; the operator asks pods, and pods replicate, through the same
policies.
"""

import json
from collections.abc import Iterator
from functools import partial

import pytest

from e2e.clients import PodClient, idle_pod
from e2e.disturbances import kill
from e2e.environment import Images, on_testbed
from e2e.kubectl import Cluster, Object
from e2e.namespaces import fresh_namespace
from e2e.releases import OPERATOR_PODS, install
from e2e.standby_store import LEASE_S, STORE, Used, make_store
from e2e.stores import has_another, is_ready, is_redundant, pods_of, small_store, uids_of
from qss_testing.waiting import wait_until

pytestmark = pytest.mark.usefixtures("own_bed")

_QUERY, _CHANGELOG, _OPS = 8080, 8081, 8082
_FAILED_OVER_S = 1.1 * LEASE_S + 2.0
_SYNCED_S = 60.0  # The nodes follow new pods and policies a moment later.
_ASKER, _MONITOR, _STRANGER = ({"role": one} for one in ("asker", "monitor", "stranger"))
_OPERATORS_LABELS = {
    "app.kubernetes.io/name": "queryable-state-operator",
    "app.kubernetes.io/instance": "qss",
}
# A pod that calls itself a pod of the store, a writer, an asker and the operator at once.
_IMPOSTOR = {
    "queryablestate.dev/store": STORE,
    "queryablestate.dev/writer": "e2e",
    **_ASKER,
    **_OPERATORS_LABELS,
}
_KNOCK = """
import json, socket, sys
def is_open(address, port):
    try:
        socket.create_connection((address, port), timeout=2).close()
    except OSError:
        return False
    return True
addresses, ports = json.loads(sys.argv[1]), json.loads(sys.argv[2])
print(json.dumps({one: [port for port in ports if is_open(one, port)] for one in addresses}))
"""


@pytest.fixture(scope="module", autouse=True)
def enforced() -> Iterator[None]:
    """The nodes enforce policies, from before the operator is installed."""
    on_testbed("policies", "on")
    yield
    on_testbed("policies", "off")


@pytest.fixture(scope="module")
def elsewhere(enforced: None, cluster: Cluster) -> Iterator[Cluster]:
    """A namespace of pods that the policies have nothing to do with, but for its monitors."""
    assert enforced is None
    with fresh_namespace(cluster, "qss-e2e-network-policies-elsewhere") as made:
        yield made


@pytest.fixture(scope="module", autouse=True)
def store(
    enforced: None, here: Cluster, elsewhere: Cluster, client: PodClient, images: Images
) -> None:
    """A store that names who may ask it, one that does not, and pods of all kinds."""
    assert enforced is None
    monitors = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": elsewhere.namespace}},
        "podSelector": {"matchLabels": _MONITOR},
    }
    asked = {"queryFrom": [{"podSelector": {"matchLabels": _ASKER}}], "metricsFrom": [monitors]}
    make_store(here, client, access=asked)
    here.apply(small_store("open"))
    here.until("qss/open", is_ready)
    start_idle(here, images, asker=_ASKER, stranger=_STRANGER, monitor=_MONITOR)
    start_idle(elsewhere, images, monitor=_MONITOR, stranger=_STRANGER, impostor=_IMPOSTOR)


def test_each_port_is_open_to_the_pods_that_need_it_and_to_no_others(
    here: Cluster, own_operator: Cluster, elsewhere: Cluster
) -> None:
    """Of each pod of the store, so from the same node and from another one."""
    operator = own_operator.items(*OPERATOR_PODS)[0]["metadata"]["name"]
    may: dict[tuple[Cluster, str], list[int]] = {
        (here, f"{STORE}-0"): [_QUERY, _CHANGELOG],
        (here, f"{STORE}-1"): [_QUERY, _CHANGELOG],
        (here, "client"): [_QUERY, _CHANGELOG],
        (here, "asker"): [_QUERY],
        (here, "open-0"): [],  # A pod of another store.
        (here, "monitor"): [],  # Not in the namespace of the monitors.
        (here, "stranger"): [],
        (elsewhere, "monitor"): [_OPS],
        (elsewhere, "impostor"): [],
        (own_operator, operator): [_CHANGELOG],
    }
    for (cluster, pod), ports in may.items():
        others = [one for one in pods_of(here, STORE) if one["metadata"]["name"] != pod]
        wait_until(partial(reaches, cluster, pod, others, ports), _SYNCED_S)
    for cluster in (here, elsewhere):  # What names nobody is open to each pod of the cluster.
        target = pods_of(here, "open")
        wait_until(partial(reaches, cluster, "stranger", target, [_QUERY, _OPS]), _SYNCED_S)


def test_the_ops_port_of_the_operator_is_open_to_whom_the_chart_says(
    here: Cluster, own_operator: Cluster, elsewhere: Cluster, images: Images
) -> None:
    def opens(cluster: Cluster, pod: str, ports: list[int]) -> None:
        found = own_operator.items(*OPERATOR_PODS)
        wait_until(partial(reaches, cluster, pod, found, ports), _SYNCED_S)

    values = {"watch.namespaces": f"{{{here.namespace}}}"}
    opens(elsewhere, "stranger", [_OPS])
    start_idle(own_operator, images, monitor=_MONITOR)
    peer = {"networkPolicy.opsFrom[0].podSelector.matchLabels.role": "monitor"}
    install(own_operator, images, values=values | peer)
    opens(elsewhere, "monitor", [])
    opens(own_operator, "monitor", [_OPS])
    install(own_operator, images, values=values)
    opens(elsewhere, "stranger", [_OPS])


def test_a_policy_that_is_removed_cuts_nothing_and_comes_back(here: Cluster, used: Used) -> None:
    def is_anew() -> bool:
        found = here.find(f"networkpolicy/{STORE}")
        return found is not None and found["metadata"]["uid"] != before["metadata"]["uid"]

    before = here.get(f"networkpolicy/{STORE}")
    with used(LEASE_S):
        here.kubectl("delete", "networkpolicy", STORE)
        wait_until(is_anew, 60.0)
    others = pods_of(here, STORE)
    wait_until(partial(reaches, here, "stranger", others, []), _SYNCED_S)


def test_failover_and_new_pods_go_on_below_policies(here: Cluster, used: Used) -> None:
    """A new pod has another address, which all policies have to follow."""
    with used(_FAILED_OVER_S):
        uid = uids_of(here, STORE)[f"{STORE}-1"]
        kill(here, f"{STORE}-1")
        wait_until(lambda: has_another(here, STORE, f"{STORE}-1", uid))
    with used(LEASE_S):
        for pods in (5, 3, 4):
            here.kubectl("scale", f"qss/{STORE}", f"--replicas={pods}")
            wait_until(partial(has_pods, here, pods), 240.0)
            here.until(f"qss/{STORE}", is_redundant)
    others = pods_of(here, STORE)
    wait_until(partial(reaches, here, "client", others, [_QUERY, _CHANGELOG]), _SYNCED_S)
    wait_until(partial(reaches, here, "stranger", others, []), _SYNCED_S)


def has_pods(here: Cluster, number: int) -> bool:
    return len(pods_of(here, STORE)) == number


def start_idle(here: Cluster, images: Images, **pods: dict[str, str]) -> None:
    """Starts pods by name, with their labels."""
    here.apply(*(idle_pod(name, images.store, **labels) for name, labels in pods.items()))
    for name in pods:
        here.wait(f"pod/{name}", "condition=Ready")


def reaches(cluster: Cluster, pod: str, targets: list[Object], ports: list[int]) -> bool:
    """Whether a pod reaches these ports of all targets, and no other port of theirs."""
    addresses = json.dumps([one["status"]["podIP"] for one in targets])
    asked = json.dumps([_QUERY, _CHANGELOG, _OPS])
    said = cluster.kubectl("exec", pod, "--", "python", "-c", _KNOCK, addresses, asked)
    return all(found == ports for found in json.loads(said).values())
