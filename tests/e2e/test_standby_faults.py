"""Pods of a store with standbys lose their node, are stopped, ended or drained, and it goes on.

A client writes and reads meanwhile. No request of it may fail, and no answer may go back.
"""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import combinations

import pytest

from e2e.clients import PodClient
from e2e.disturbances import nodes_of, other_node, signal_processes, uncordoned
from e2e.environment import Tell, on_testbed
from e2e.kubectl import Cluster, Object
from e2e.releases import leader
from e2e.standby_store import LEASE_S, STORE, Used, make_store
from e2e.stores import (
    actives_of,
    has_another,
    is_observed,
    is_redundant,
    pod_of_most_actives,
    pods_of,
    says,
    small_store,
    uids_of,
    until_told,
)
from qss_testing.waiting import wait_until

# Nodes are stopped first: later pods of one partition may be on one node.
_FROM_THE_API_SERVER = (
    ("OUTPUT", "--destination", "172.30.0.1", "--protocol", "tcp", "--dport", "6443"),
    ("FORWARD", "--destination", "172.30.0.1", "--protocol", "tcp", "--dport", "6443"),
)
_BEFORE_POLICIES = ("iptables", "--table", "mangle")  # These accept packets in the table filter.
_LEASE_S = LEASE_S
# A handover takes a fraction of a second; the first retries of a writer may come at a bad moment.
_HANDED_OVER_S = 2.0
_ONE_TRY_FAILS = 0.005  # The share of questions to the Service in a drain, roll or scale.
_FAILED_OVER_S = 1.1 * _LEASE_S + 2.0
_DRAINED_S = 30.0
_GIGABYTE = 1_000_000_000
_NODE_LOST_S = 1.1 * _LEASE_S + 5.0


@pytest.fixture(scope="module", autouse=True)
def store(here: Cluster, client: PodClient) -> None:
    """The store that the tests disturb."""
    make_store(here, client)


@pytest.mark.usefixtures("own_bed")
def test_standbys_take_over_from_a_node_without_power(
    here: Cluster, own_operator: Cluster, used: Used
) -> None:
    node = other_node(here)
    lead_from_another_node(own_operator, node)
    with used(_NODE_LOST_S):
        on_testbed("node-down", node.removeprefix("node"))
        try:
            here.wait(f"node/{node}", "condition=Ready=Unknown", 90.0)
        finally:
            on_testbed("node-up", node.removeprefix("node"))
        here.wait(f"node/{node}", "condition=Ready", 90.0)


def lead_from_another_node(system: Cluster, node: str) -> None:
    """Moves the operator's Lease off the node: a lost one would take 15 s more to expire."""

    def is_elsewhere() -> bool:
        name = leader(system)
        if system.get("pod", name)["spec"]["nodeName"] != node:
            return True
        system.kubectl("delete", "pod", name, "--timeout=60s", timeout_s=70)
        return False

    wait_until(is_elsewhere, 180.0)


@pytest.mark.usefixtures("own_bed")
def test_a_node_that_is_cut_off_from_the_api_server_serves_on(
    here: Cluster, own_operator: Cluster, used: Used
) -> None:
    node = other_node(here)
    lead_from_another_node(own_operator, node)
    # The writer's first batch then shows its token to all pods: none can have it reviewed later.
    here.until(
        f"qss/{STORE}", lambda found: is_redundant(found) and actives_of(found) == {*range(4)}
    )
    # A standby that has not seen the reader's token asks for 2 s before it refuses.
    with used(_LEASE_S), cut_off(node, *_FROM_THE_API_SERVER):
        here.wait(f"node/{node}", "condition=Ready=Unknown", 90.0)


@pytest.mark.usefixtures("own_bed")
def test_standbys_take_over_from_a_node_that_is_cut_off_from_the_other_nodes(
    here: Cluster, own_operator: Cluster, used: Used
) -> None:
    node = other_node(here)
    lead_from_another_node(own_operator, node)
    on_it = {pod["metadata"]["name"] for pod in pods_of(here, STORE) if node_of(pod) == node}
    numbers = {int(name.rpartition("-")[2]) for name in on_it}
    assert numbers, "a pod is cut off"
    with used(_NODE_LOST_S), cut_off(node, *from_the_others(here, node)):
        here.until(f"qss/{STORE}", lambda found: not actives_of(found) & numbers)


@contextmanager
def cut_off(node: str, *packets: tuple[str, ...]) -> Iterator[None]:
    """Drops packets of a node while the block runs."""
    number = node.removeprefix("node")
    for one in packets:
        on_testbed("in", number, *_BEFORE_POLICIES, "--insert", *one, "--jump", "DROP")
    try:
        yield
    finally:
        for one in packets:
            on_testbed("in", number, *_BEFORE_POLICIES, "--delete", *one, "--jump", "DROP")


def from_the_others(here: Cluster, node: str) -> list[tuple[str, ...]]:
    """The packets between a node and the other ones, and between their pods."""
    packets: list[tuple[str, ...]] = []
    for other in nodes_of(here):
        number = other.removeprefix("node")
        address, pods = f"172.30.0.1{number}", f"10.244.{number}.0/24"
        if other != node:
            packets += [
                ("INPUT", "--source", address),
                ("OUTPUT", "--destination", address),
                ("FORWARD", "--source", pods),
                ("FORWARD", "--destination", pods),
                ("INPUT", "--source", pods),
                ("OUTPUT", "--destination", pods),
            ]
    return packets


def node_of(pod: Object) -> str:
    """The node of a pod; empty until it has one."""
    name: str = pod["spec"].get("nodeName", "")
    return name


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
def test_standbys_take_over_from_a_process_that_stands_still_or_is_killed(
    here: Cluster, used: Used, number: signal.Signals
) -> None:
    leader_of_most = pod_of_most_actives(here.get("qss", STORE))
    busiest = f"{STORE}-{leader_of_most}"
    with used(_FAILED_OVER_S):
        signal_processes(busiest, number)
        try:
            # A killed process may be back before anybody takes over.
            here.until(
                f"qss/{STORE}",
                lambda found: (
                    not is_redundant(found)
                    if number is signal.SIGKILL
                    else leader_of_most not in actives_of(found)
                ),
            )
        finally:
            signal_processes(busiest, signal.SIGCONT)
    until_told(here, STORE, {"FailedOver", "LeftInSync", "Rejoined"})


@pytest.mark.usefixtures("own_bed")
def test_two_pods_that_are_deleted_at_once_lose_nothing(here: Cluster, used: Used) -> None:
    def both_are_new() -> bool:
        return all(has_another(here, STORE, name, uid) for name, uid in gone.items())

    gone = dict(list(uids_of(here, STORE).items())[:2])
    with used(60.0):
        here.kubectl("delete", "pod", *gone, "--grace-period=0", "--force")
        wait_until(both_are_new)


def test_a_scale_with_changes_of_mind_loses_nothing(here: Cluster, used: Used) -> None:
    scale: Callable[[int], str] = lambda pods: here.kubectl(  # noqa: E731 it is short.
        "scale", f"qss/{STORE}", f"--replicas={pods}"
    )
    # Each number is changed in the middle: the new pod has a first replica, or pods are emptied.
    is_draining = says("ScaleDownBlocked", "Draining")
    middles = {5: is_in_sync_on(4), 2: is_draining, 3: is_draining, 4: is_observed}
    with used(_HANDED_OVER_S, _ONE_TRY_FAILS):
        for pods, is_in_the_middle in middles.items():
            scale(pods)
            here.until(f"qss/{STORE}", is_in_the_middle)
        wait_until(lambda: len(uids_of(here, STORE)) == 4, 240.0)
    until_told(here, STORE, {"MoveBegun", "MoveDone", "ReplicaRemoved", "Draining"})


def is_in_sync_on(pod: int) -> Callable[[Object], bool]:
    """Whether a replica on this pod is in sync."""
    return lambda found: any(pod in one["inSync"] for one in found["status"]["assignment"])


def test_deleted_pods_hand_their_actives_over(here: Cluster, used: Used) -> None:
    """Each as soon as the store is redundant again; no writer waits as long as for a failover."""
    with used(_LEASE_S):
        for name, uid in uids_of(here, STORE).items():
            here.kubectl("delete", "pod", name, "--timeout=60s", timeout_s=70)
            wait_until(lambda name=name, uid=uid: has_another(here, STORE, name, uid))  # type: ignore[misc]
            here.until(f"qss/{STORE}", is_redundant)


def test_a_drain_of_each_node_hands_the_actives_over(here: Cluster, used: Used) -> None:
    for node in nodes_of(here):
        with used(_HANDED_OVER_S, _ONE_TRY_FAILS), uncordoned(here, node):
            own = f"--pod-selector=queryablestate.dev/store={STORE}"
            gently = ("--delete-emptydir-data", "--timeout=120s")
            here.kubectl("drain", node, own, *gently, timeout_s=130)
    until_told(here, STORE, {"HandedOver"})


def test_a_drain_with_a_gigabyte_is_short(here: Cluster, client: PodClient, tell: Tell) -> None:
    """The rows stay on the volumes: the actives are handed over, and no replica is copied."""
    large = "large"
    storage = {"size": "4Gi", "whenDeleted": "Delete"}
    here.apply(small_store(large, replicas=3, partitions=12, standbys=1, storage=storage))
    here.until(f"qss/{large}", is_redundant)
    client.fill(large, _GIGABYTE)
    for node in nodes_of(here):
        with client.keeping(large) as story, uncordoned(here, node):
            began_s = time.monotonic()
            own = f"--pod-selector=queryablestate.dev/store={large}"
            here.kubectl(
                "drain", node, own, "--delete-emptydir-data", "--timeout=120s", timeout_s=130
            )
            took_s = time.monotonic() - began_s
            here.until(f"qss/{large}", is_redundant)
        kept = story.told()
        tell(f"drain of {node} with a gigabyte: {took_s:.1f} s, slowest {kept['slowest_s']} s")
        assert (kept["wrong"], kept["failures"]) == ([], [])
        assert took_s < _DRAINED_S
    here.kubectl("delete", f"qss/{large}", "--timeout=120s", timeout_s=130)


@pytest.mark.usefixtures("own_bed")
def test_the_pods_of_a_node_that_is_out_of_service_are_made_again_on_another_one(
    here: Cluster, own_operator: Cluster, used: Used
) -> None:
    """Without that word of a person, they stay in Terminating: the node may be alive."""
    node, taint = other_node(here), "node.kubernetes.io/out-of-service"
    lead_from_another_node(own_operator, node)
    # No replica moves because of nodes (operator 68): a partition may share one, and fail with it.
    lost = pods_apart(here.get("qss", STORE))
    start_on(here, node, *lost)
    own = here.get("pod", "client")["spec"]["nodeName"]
    start_on(here, own, *(uids_of(here, STORE).keys() - {*lost}))
    with used(_NODE_LOST_S):
        on_testbed("node-down", node.removeprefix("node"))
        try:
            here.wait(f"node/{node}", "condition=Ready=Unknown", 90.0)
            here.kubectl("taint", "node", node, f"{taint}=nodeshutdown:NoExecute")
            wait_until(
                lambda: not {"", node} & {node_of(pod) for pod in pods_of(here, STORE)}, 180.0
            )
            here.until(f"qss/{STORE}", is_redundant)
        finally:
            on_testbed("node-up", node.removeprefix("node"))
            here.kubectl("taint", "node", node, f"{taint}-")
        here.wait(f"node/{node}", "condition=Ready", 90.0)


def start_on(here: Cluster, node: str, *pods: str) -> None:
    """Makes pods anew on a node, unless they are there: the drains before put them anywhere."""
    others = [one for one in nodes_of(here) if one != node]
    for name in pods:
        if node_of(here.get("pod", name)) == node:
            continue
        here.kubectl("cordon", *others)
        with uncordoned(here, *others):
            uid = uids_of(here, STORE)[name]
            here.kubectl("delete", "pod", name, "--timeout=60s", timeout_s=70)
            wait_until(lambda name=name, uid=uid: has_another(here, STORE, name, uid))  # type: ignore[misc]
            here.until(f"qss/{STORE}", is_redundant)
        assert node_of(here.get("pod", name)) == node


def pods_apart(found: Object) -> tuple[str, ...]:
    """Two pods that share no partition, or one where any two share one."""
    held: list[set[int]] = [{*one["replicas"]} for one in found["status"]["assignment"]]
    pods = sorted(set[int]().union(*held))
    pairs = (pair for pair in combinations(pods, 2) if {*pair} not in held)
    return tuple(f"{STORE}-{pod}" for pod in next(pairs, pods[:1]))
