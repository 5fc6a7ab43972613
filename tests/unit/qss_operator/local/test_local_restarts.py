"""Pods of the local cluster that are restarted, or start, while it is scaled."""

import sys
from pathlib import Path

import pytest

from qss_core.model import StoreName
from qss_operator.local.cluster import LocalCluster
from qss_operator.local.directory.state import StateDirectory

STORE = StoreName("words")
IDLE = (sys.executable, "-c", "import threading; threading.Event().wait()")


@pytest.fixture
def state(tmp_path: Path) -> StateDirectory:
    found = StateDirectory(tmp_path / ".qss")
    (found.path / STORE).mkdir(parents=True)
    return found


async def test_a_pod_that_was_removed_meanwhile_is_not_restarted(state: StateDirectory) -> None:
    async with LocalCluster(state, IDLE) as cluster:
        await cluster.set_replicas(STORE, 2)
        last = (await cluster.observe(STORE)).pods[1]
        await cluster.set_replicas(STORE, 1)
        await cluster.restart(STORE, last)
        assert (await cluster.observe(STORE)).replicas == 1


async def test_a_new_pod_leaves_the_ports_of_starting_pods_to_them(state: StateDirectory) -> None:
    async with LocalCluster(state, IDLE) as cluster:
        await cluster.set_replicas(STORE, 2)
        await cluster.set_replicas(STORE, 3)  # None of the two listens yet.
    ports = [port for pod in state.read_ports(STORE) for port in pod.all()]
    assert len(set(ports)) == 9
