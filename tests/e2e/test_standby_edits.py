"""A store with standbys whose resource is edited while its nodes are drained, or back and forth.

A client writes and reads meanwhile. No request of it may fail, and no answer may go back.
"""

from typing import Any

import pytest

from e2e.clients import PodClient
from e2e.disturbances import nodes_of, uncordoned
from e2e.kubectl import Cluster
from e2e.standby_store import LEASE_S, STORE, Used, make_store
from e2e.stores import is_moving, is_observed, is_redundant, pods_of, uids_of
from qss_testing.waiting import wait_until

_QSS = f"qss/{STORE}"
_HANDED_OVER_S = 2.0
_ONE_TRY_FAILS = 0.005
_EDITED_S = LEASE_S  # Partitions change their configurations several times a second.
_ROLLED_S = 300.0


@pytest.fixture(scope="module", autouse=True)
def store(here: Cluster, client: PodClient) -> None:
    """The store that the tests disturb."""
    make_store(here, client)


def edit(here: Cluster, **spec: Any) -> None:
    here.patch(_QSS, {"spec": spec})


def labels_of_pods(here: Cluster, name: str) -> list[str | None]:
    """The value of a label for each pod of the store, in the order of their ordinals."""
    return [pod["metadata"]["labels"].get(name) for pod in pods_of(here, STORE)]


def test_pods_roll_while_a_node_is_drained(here: Cluster, used: Used) -> None:
    """A pod that the drain moves has the new template already."""
    before = {*uids_of(here, STORE).values()}
    node = nodes_of(here)[-1]
    with used(_HANDED_OVER_S, _ONE_TRY_FAILS), uncordoned(here, node):
        edit(here, pod={"labels": {"shop.example/roll": "1"}})
        own = f"--pod-selector=queryablestate.dev/store={STORE}"
        gently = ("--delete-emptydir-data", "--timeout=240s")
        here.kubectl("drain", node, own, *gently, timeout_s=250)
        wait_until(lambda: not before & {*uids_of(here, STORE).values()}, _ROLLED_S)
    assert labels_of_pods(here, "shop.example/roll") == ["1"] * 4


def test_a_resource_that_is_edited_back_and_forth_ends_as_it_says(
    here: Cluster, used: Used
) -> None:
    """No writer waits as long as for a failover."""
    roll = "shop.example/back-and-forth"
    with used(_EDITED_S, _ONE_TRY_FAILS):
        for standbys, pods, label in ((2, 4, "a"), (1, 5, "b"), (2, 5, "a"), (1, 4, "b")):
            edit(here, standbys=standbys, replicas=pods, pod={"labels": {roll: label}})
            here.until(_QSS, is_observed)
        wait_until(lambda: labels_of_pods(here, roll) == ["b"] * 4, _ROLLED_S)
    # Replicas that the last edit needs elsewhere move once every partition has its standby.
    found = here.until(_QSS, lambda found: is_redundant(found) and not is_moving(found))
    assert {len(one["replicas"]) for one in found["status"]["assignment"]} == {2}
    assert len(pods_of(here, STORE)) == 4
