"""The volume of one pod of a store with standbys fills, or goes back to an older copy."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from e2e.clients import PodClient
from e2e.disturbances import nodes_of
from e2e.environment import on_testbed
from e2e.kubectl import Cluster, Object
from e2e.standby_store import LEASE_S, STORE, Used, make_store
from e2e.stores import condition, has_another, is_redundant, uids_of
from qss_testing.waiting import wait_until

pytestmark = pytest.mark.usefixtures("own_bed")

_QSS = f"qss/{STORE}"
_POD = f"{STORE}-1"
_FULL_S, _ONE_TRY_FAILS = 60.0, 0.01


@pytest.fixture(scope="module", autouse=True)
def store(here: Cluster, client: PodClient) -> None:
    """The store that the tests disturb."""
    make_store(here, client)


def test_a_full_volume_of_one_pod_stops_no_read_and_loses_nothing(
    here: Cluster, used: Used
) -> None:
    """Batches for partitions that the pod leads wait until there is room."""
    with on_small_volume(here) as folder, used(_FULL_S, _ONE_TRY_FAILS):
        fill(here, folder)
        here.until(_QSS, tells_of_a_full_volume)
        empty(here, folder)
    # The old folder is there again, as if a snapshot had been restored: its rows are too old.
    here.until(_QSS, is_redundant)


def test_a_store_goes_on_after_its_volume_was_put_back(here: Cluster, used: Used) -> None:
    """The rows of the newer volume are nowhere else but in the other replicas."""
    with used(2 * LEASE_S), on_small_volume(here):
        pass


def tells_of_a_full_volume(found: Object) -> bool:
    """Whether the store is in trouble for it: as a whole pod, or as a replica that cannot write."""
    said = condition(found, "Degraded")
    return said.get("reason") == "VolumeFull" or "volume is full" in said.get("message", "")


@contextmanager
def on_small_volume(here: Cluster) -> Iterator[str]:
    """Puts an empty file system over the pod's volume on each node, and takes it away again."""
    volume = here.get("pvc", f"data-{_POD}")["spec"]["volumeName"]
    folder: str = here.get("pv", volume)["spec"]["hostPath"]["path"]
    small = ("mount", "--types", "tmpfs", "--options", "size=512m,mode=0777", "tmpfs", folder)
    on_each_node(here, *small)
    try:
        make_anew(here)
        yield folder
    finally:
        on_each_node(here, "umount", "--lazy", folder)
    make_anew(here)


def make_anew(here: Cluster) -> None:
    """Deletes the pod, and waits until the store is redundant with another one."""
    uid = uids_of(here, STORE)[_POD]
    here.kubectl("delete", "pod", _POD, "--timeout=60s", timeout_s=70)
    wait_until(lambda: has_another(here, STORE, _POD, uid))
    here.until(_QSS, is_redundant)


def on_each_node(here: Cluster, *command: str) -> None:
    """Runs a command inside every node."""
    for node in nodes_of(here):
        on_testbed("in", node.removeprefix("node"), *command)


def fill(here: Cluster, folder: str) -> None:
    """Leaves no room on the node that has the pod; the folder of other nodes does not matter."""
    on_each_node(here, "sh", "-c", f"cat /dev/zero > {folder}/filler || true")


def empty(here: Cluster, folder: str) -> None:
    """Takes the filler away, so that there is room again."""
    on_each_node(here, "rm", f"{folder}/filler")
