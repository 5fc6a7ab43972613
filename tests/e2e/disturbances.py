"""Kills pods, processes and the API server, and tells the changes of a store."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from e2e.environment import on_testbed
from e2e.kubectl import Cluster, CommandError
from e2e.releases import holder, leader
from qss_testing.waiting import wait_until

_QUIET_S = 5.0
_NEXT_LEADER_S = 90.0


def kill(here: Cluster, pod: str) -> None:
    """Kills the processes of a pod, and deletes the pod by force.

    With a forced deletion alone, processes may run for two seconds more, as on other machines.
    """
    signal_processes(pod, signal.SIGKILL)
    here.kubectl("delete", "pod", pod, "--grace-period=0", "--force")


def let_happen(here: Cluster, store: str, changes: int) -> None:
    """Returns after `changes` changes of the store, or when the store stops changing."""
    for _ in range(changes):
        before = _state_of(here, store)
        with suppress(AssertionError):
            wait_until(partial(_has_changed, here, store, before), _QUIET_S)


def signal_processes(pod: str, number: signal.Signals) -> None:
    """Signals the processes of a pod on the test bed; a node without power has none."""
    for process in _processes_of(pod):
        with suppress(ProcessLookupError):
            os.kill(process, number)


def without_its_operator(
    act: Callable[[], object], moment: int, system: Cluster, here: Cluster, store: str
) -> None:
    """Runs `act`, kills the leader after `moment` changes, and waits until another pod leads.

    The leader cannot release its Lease, so no pod leads until the Lease expires.
    """
    first = leader(system)
    identity = holder(system)
    with ThreadPoolExecutor(max_workers=1) as beside:
        acting = beside.submit(act)
        let_happen(here, store, moment)
        signal_processes(first, signal.SIGKILL)
        acting.result()
    wait_until(lambda: holder(system) != identity and leader(system), _NEXT_LEADER_S)


def without_the_api_server(here: Cluster, seconds: float) -> None:
    """Stops the API server of the test bed for some seconds; returns when it answers again."""
    on_testbed("stop", "kube-apiserver")
    began_s = time.monotonic()
    try:
        wait_until(lambda: time.monotonic() - began_s > seconds, seconds + 10)
    finally:
        on_testbed("start", "kube-apiserver")
        wait_until(partial(_answers, here), 60.0)


def _answers(here: Cluster) -> bool:
    """Whether the API server is back."""
    with suppress(CommandError):
        return here.kubectl("get", "--raw", "/readyz") == "ok"
    return False


def _processes_of(pod: str) -> Iterator[int]:
    """The process ids on this machine."""
    name = f"HOSTNAME={pod}".encode()
    for directory in Path("/proc").iterdir():
        with suppress(OSError):
            if directory.name.isdigit() and name in (directory / "environ").read_bytes().split(
                b"\0"
            ):
                yield int(directory.name)


def _state_of(here: Cluster, store: str) -> str:
    """The resource versions of the store and its objects, which change with every write."""
    kinds = "qss,statefulset,pods,services,pvc"
    selector = ("--selector", f"queryablestate.dev/store={store}")
    found = here.kubectl("get", kinds, *selector, "--output", "jsonpath={..resourceVersion}")
    own = ("get", f"qss/{store}", "--ignore-not-found", "--output")
    return found + here.kubectl(*own, "jsonpath={..resourceVersion}")


def _has_changed(here: Cluster, store: str, before: str) -> bool:
    return _state_of(here, store) != before


def nodes_of(here: Cluster) -> list[str]:
    """The names of all nodes."""
    return sorted(node["metadata"]["name"] for node in here.items("nodes"))


def other_node(here: Cluster) -> str:
    """A node without the client: it may be stopped or cut off."""
    own = here.get("pod", "client")["spec"]["nodeName"]
    return next(node for node in nodes_of(here) if node != own)


@contextmanager
def uncordoned(here: Cluster, *nodes: str) -> Iterator[None]:
    """Lets pods onto the nodes again after the block."""
    try:
        yield
    finally:
        here.kubectl("uncordon", *nodes)
