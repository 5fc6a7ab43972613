"""Runs stores on this machine for as long as a context lasts: what `qss up` does."""

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import aiohttp

from qss_core.model import StoreName
from qss_operator.clock import SystemClock, time_of
from qss_operator.errors import StartFailedError
from qss_operator.http_pods import HttpPods
from qss_operator.local.cluster import POD_COMMAND, LocalCluster
from qss_operator.local.directory.state import HeldLock, StateDirectory
from qss_operator.local.prepare import prepare, store, telling_differences
from qss_operator.local.resources import LocalResources
from qss_operator.local.rounds import run_rounds
from qss_operator.local.stop import mark_stopped
from qss_operator.planning.assignment_state import NO_IN_SYNC_REPLICA, RETAINED_VOLUMES_FOUND
from qss_operator.planning.losses import PARTITION_ROLLED_BACK
from qss_operator.planning.model import ConditionType, StoreStatus
from qss_operator.planning.obstacles import STORE_TYPE_REFUSED
from qss_operator.planning.status import is_ready, starting_status, why
from qss_operator.reconcile import Intervals, StoreReconciler

_WATCH_S = 0.1
_SILENT_AFTER_S = 10.0
_TELL_AFTER_S = 2.0
# Reasons that only a person mends. While an accepted loss is taken, a store has the latter two.
_HOPES_S = {
    RETAINED_VOLUMES_FOUND: 0.0,
    STORE_TYPE_REFUSED: 0.0,
    NO_IN_SYNC_REPLICA: 5.0,
    PARTITION_ROLLED_BACK: 5.0,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningStores:
    """The stores of a run; their status is read where it is published."""

    state: StateDirectory
    names: tuple[StoreName, ...]
    lock: HeldLock | None = None  # Of this process; None where another one runs them.
    # Asked for ten times a second, and read only where it was published anew.
    _seen: dict[StoreName, tuple[object, StoreStatus]] = field(default_factory=dict)

    def statuses(self) -> dict[StoreName, StoreStatus]:
        """The published status of each store; an empty one before the first."""
        for name in self.names:
            version = self.state.status_version(name)
            if name not in self._seen or self._seen[name][0] != version:
                self._seen[name] = version, self.state.read_status(name) or StoreStatus()
        return {name: self._seen[name][1] for name in self.names}

    async def wait_until_deleted(self) -> None:
        """Returns when the state directory was deleted: nobody finds these pods any more."""
        while True:
            if self.lock is not None and not self.lock.is_there():
                return
            await asyncio.sleep(_WATCH_S)


@asynccontextmanager
async def running_stores(
    files: Sequence[Path], state: StateDirectory, pod_command: Sequence[str] = POD_COMMAND
) -> AsyncIterator[RunningStores]:
    """Bring up the stores of some files for as long as the context lasts.

    Raises a StoreError for a bad file, and AlreadyRunningError where somebody runs this state
    directory. On leaving, every pod is stopped; the data stays.
    """
    # A bad file is told of even while somebody else runs the directory.
    prepared = prepare(files, state)
    with ExitStack() as stack:
        with telling_differences(prepared, state):
            lock = stack.enter_context(state.lock())
        # Again: what was stored may have changed until now.
        prepared = prepare(files, state)
        clock = SystemClock()
        resources = [store(entry, state, str(uuid4()), time_of(clock.utc())) for entry in prepared]
        names = tuple(resource.name for resource in resources)
        for name in names:
            # What the last run published is over.
            state.write_status(name, starting_status(state.read_status(name), time_of(clock.utc())))
        async with LocalCluster(state, pod_command) as cluster, aiohttp.ClientSession() as session:
            state.write_holder()
            local = LocalResources(state, resources)
            pods = HttpPods(session, silent_after_s=_SILENT_AFTER_S)
            tasks = [
                asyncio.create_task(_run_store(name, local, cluster, pods, clock)) for name in names
            ]
            try:
                yield RunningStores(state=state, names=names, lock=lock)
            finally:
                await _cancel(tasks)
        for name in names:
            mark_stopped(state, name, time_of(clock.utc()))


async def _run_store(
    name: StoreName,
    resources: LocalResources,
    cluster: LocalCluster,
    pods: HttpPods,
    clock: SystemClock,
) -> None:
    intervals = Intervals()
    reconciler = StoreReconciler(
        name, resources=resources, cluster=cluster, pods=pods, clock=clock, intervals=intervals
    )
    await run_rounds(name, reconciler.run_round, cluster.wait_for_change, intervals)


async def wait_until_ready(
    read: Callable[[], dict[StoreName, StoreStatus]],
    timeout_s: float,
    tell: Callable[[str], None] = lambda _: None,
) -> None:
    """Return when every store is Ready; raises StartFailedError with each store's reason.

    It ends at once, or after some seconds of the same reason, where waiting does not help. tell:
    is given what it waits for, after 2 s and whenever that changes.
    """
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    reasons = ""
    since_s = began_s
    told = ""
    while True:
        waiting = {name: status for name, status in read().items() if not is_ready(status)}
        if not waiting:
            return
        now_s = loop.time()
        if (said := _reasons_of(waiting)) != reasons:
            reasons, since_s = said, now_s
        hopes_s = min(map(_hopes_for_s, waiting.values()))
        if now_s >= began_s + timeout_s or now_s - since_s >= hopes_s:
            raise StartFailedError(reasons)
        if reasons != told and now_s >= began_s + _TELL_AFTER_S:
            told = reasons
            tell(reasons)
        await asyncio.sleep(_WATCH_S)


def _reasons_of(waiting: Mapping[StoreName, StoreStatus]) -> str:
    return "\n".join(f"{name}: {why(status)}" for name, status in waiting.items())


def _hopes_for_s(status: StoreStatus) -> float:
    """For how long what a store says may pass by itself."""
    ready = status.condition(ConditionType.READY)
    return _HOPES_S.get(ready.reason, math.inf) if ready else math.inf


async def _cancel(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
