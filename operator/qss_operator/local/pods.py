"""Finds the stores and pods that commands name, and signals a pod. It imports little."""

import re
import signal
from collections.abc import Iterable
from typing import NoReturn

from qss_client.processes import ProcessId
from qss_core.errors import StoreNotFoundError
from qss_core.model import Ordinal, StoreName
from qss_core.text import listed
from qss_operator.errors import NotRunningError, NotThereError, StateDirectoryError
from qss_operator.local.directory.state import StateDirectory
from qss_operator.local.processes import signal_process

_POD = re.compile(r"(.+)-(0|[1-9][0-9]{0,8})")


def known_store(state: StateDirectory, store: str) -> StoreName:
    """The store of that name; raises StoreNotFoundError with the names that are there."""
    names = state.stores()
    if store not in names:
        known = ", ".join(names) or "none"
        raise StoreNotFoundError(f"no store {store!r} in {state.path}; its stores: {known}")
    return StoreName(store)


def check_runs(state: StateDirectory, store: StoreName) -> None:
    """Raises NotRunningError where no `qss up` runs the store."""
    running = state.running()
    if not running:
        raise NotRunningError(
            f"nothing runs in {state.path}: `qss up{state.option}` starts its stores"
        )
    if store not in running:
        raise NotRunningError(
            f"store {store} is not among the running stores ({listed(running)}): start `qss up` "
            "with it"
        )


def signal_pod(state: StateDirectory, pod: str, number: signal.Signals) -> ProcessId:
    """Signal a running pod by its name, as words-2; returns its process.

    Raises a StoreError that names the pods which are there.
    """
    found = _POD.fullmatch(pod)
    if found is None or found[1] not in state.stores():
        _refuse(state, pod, state.running() or state.stores())
    store, ordinal = StoreName(found[1]), Ordinal(int(found[2]))
    check_runs(state, store)
    if ordinal >= pods_of(state, store):
        _refuse(state, pod, [store])
    try:
        process = state.process(store, ordinal)
    except StateDirectoryError:
        process = None
    if process is None:
        raise NotRunningError(
            f"nothing was done: the process of {pod} is not known, as "
            f"{state.process_file(store, ordinal)} is missing or damaged. A pod that is being "
            f"started writes it; `qss restart {store}{state.option}` starts the pods again, one "
            "after the other, and their files are written anew"
        )
    if not signal_process(process, number):
        raise NotRunningError(
            f"{pod} does not run now, and is being started: `qss status {store}{state.option}` "
            "shows why"
        )
    return process


def pods_of(state: StateDirectory, store: StoreName) -> int:
    """The number of a store's pods, running or being started."""
    status = state.read_status(store)
    return len(status.endpoints.pods) if status and status.endpoints else 0


def pod_names(store: str, pods: int) -> str:
    """The names of the first pods of a store, for a message."""
    return listed([f"{store}-{number}" for number in range(pods)]) or "none"


def _refuse(state: StateDirectory, pod: str, stores: Iterable[StoreName]) -> NoReturn:
    pods = ", ".join(pod_names(store, pods_of(state, store)) for store in stores)
    raise NotThereError(f"no pod {pod!r} in {state.path}; its pods: {pods or 'none'}")
