"""Pods that are killed, at moments that are counted by what happens to a store."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial

from e2e.kubectl import Cluster
from e2e.releases import leader
from qss_testing.waiting import wait_until

_QUIET_S = 5.0
_NEXT_LEADER_S = 90.0


def kill(here: Cluster, pod: str) -> None:
    """At once, without a farewell."""
    here.kubectl("delete", "pod", pod, "--grace-period=0", "--force")


def let_happen(here: Cluster, store: str, changes: int) -> None:
    """Returns after so many changes of the store, or when nothing happens any more."""
    for _ in range(changes):
        before = _state_of(here, store)
        with suppress(AssertionError):
            wait_until(partial(_has_changed, here, store, before), _QUIET_S)


def without_its_operator(
    act: Callable[[], object], moment: int, system: Cluster, here: Cluster, store: str
) -> None:
    """Does it while the leader is killed, after so many changes; returns when another leads."""
    first = leader(system)
    with ThreadPoolExecutor(max_workers=1) as beside:
        acting = beside.submit(act)
        let_happen(here, store, moment)
        kill(system, first)
        acting.result()
    wait_until(lambda: leader(system) != first, _NEXT_LEADER_S)


def _state_of(here: Cluster, store: str) -> str:
    """Changes whenever the operator, or whoever follows it, does something to the store."""
    kinds = "qss,statefulset,pods,services,pvc"
    selector = ("--selector", f"queryablestate.dev/store={store}")
    found = here.kubectl("get", kinds, *selector, "--output", "jsonpath={..resourceVersion}")
    own = ("get", f"qss/{store}", "--ignore-not-found", "--output")
    return found + here.kubectl(*own, "jsonpath={..resourceVersion}")


def _has_changed(here: Cluster, store: str, before: str) -> bool:
    return _state_of(here, store) != before
