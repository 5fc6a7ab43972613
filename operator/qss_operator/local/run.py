"""Runs stores on this machine inside a context: the work of `qss up`."""

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import aiohttp

from qss_client.clock import Clock, SystemClock
from qss_core.model import StoreName
from qss_core.spec.fixed_members import WRITTEN_WITH
from qss_operator.errors import StartFailedError
from qss_operator.http_pods import HttpPods
from qss_operator.local.cluster import POD_COMMAND, LocalCluster, cancel
from qss_operator.local.directory.edit_lock import editing
from qss_operator.local.directory.state import HeldLock, StateDirectory
from qss_operator.local.directory.volumes import uid_on_volumes
from qss_operator.local.prepare import prepare, store, telling_differences
from qss_operator.local.rounds import run_rounds
from qss_operator.local.status.present import unless_old
from qss_operator.local.status_writer import LocalResources
from qss_operator.local.stop import mark_stopped
from qss_operator.local.supervisor import WRONG_SETTINGS
from qss_operator.planning.assignment_state import NO_IN_SYNC_REPLICA, RETAINED_VOLUMES_FOUND
from qss_operator.planning.findings.obstacles import STORE_TYPE_REFUSED
from qss_operator.planning.formats import LOSSY_MIGRATION_NOT_ALLOWED
from qss_operator.planning.losses import PARTITION_ROLLED_BACK
from qss_operator.planning.model import ConditionType, StoreStatus
from qss_operator.planning.status import is_ready, starting_status, why
from qss_operator.reconcile.reconciler import Intervals, StoreReconciler
from qss_operator.times import time_of, utc

_WATCH_S = 0.1
_SILENT_AFTER_S = 10.0
_TELL_AFTER_S = 2.0
_TELL_AGAIN_S = 10.0
_WRONG_SETTINGS_HOPE_S = 1.0  # Within it the other pods say the same.
# A pod opens its replicas by the assignment on its volume first, which may have another schema.
_OTHER_SCHEMA_HOPE_S = 5.0
# Reasons that only a person can mend. While an accepted loss is being taken, the store has the last
# two for a while.
_HOPES_S = {
    RETAINED_VOLUMES_FOUND: 0.0,
    LOSSY_MIGRATION_NOT_ALLOWED: 0.0,
    STORE_TYPE_REFUSED: 0.0,
    NO_IN_SYNC_REPLICA: 5.0,
    PARTITION_ROLLED_BACK: 5.0,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningStores:
    """The stores of a run, with their published status."""

    state: StateDirectory
    names: tuple[StoreName, ...]
    lock: HeldLock | None = (
        None  # The lock of this process; None if another process runs the stores.
    )
    # The status is needed ten times a second, but read only after it was published again.
    _seen: dict[StoreName, tuple[object, StoreStatus]] = field(default_factory=dict)

    def statuses(self) -> dict[StoreName, StoreStatus]:
        """The published status of each store; an empty one before the first."""
        for name in self.names:
            version = self.state.status_version(name)
            if name not in self._seen or self._seen[name][0] != version:
                self._seen[name] = version, self.state.read_status(name) or StoreStatus()
        return {name: unless_old(self.state, name, self._seen[name][1]) for name in self.names}

    async def wait_until_deleted(self) -> None:
        """Returns when the state directory was deleted, so that no command finds these pods."""
        while True:
            if self.lock is not None and not self.lock.is_there():
                return
            await asyncio.sleep(_WATCH_S)


@asynccontextmanager
async def running_stores(
    files: Sequence[Path], state: StateDirectory, pod_command: Sequence[str] = POD_COMMAND
) -> AsyncIterator[RunningStores]:
    """Run the stores of some files inside the context.

    Raises a StoreError for an invalid file, and AlreadyRunningError if another process runs this
    state directory. The end of the context stops every pod; the data stays.
    """
    # Errors of the files are reported even while another process runs the directory.
    prepared = prepare(files, state)
    with ExitStack() as stack:
        with telling_differences(prepared, state):
            lock = stack.enter_context(state.lock())
        clock = SystemClock()
        local = await _stored(files, state, clock)
        names = local.names
        for name in names:
            # The status of the last run is out of date.
            state.write_status(name, starting_status(state.read_status(name), time_of(utc(clock))))
            state.mark_renewed(name)
        async with (
            LocalCluster(state, pod_command, local.refusal) as cluster,
            aiohttp.ClientSession() as session,
        ):
            state.write_holder(names)
            pods = HttpPods(session, clock=clock, silent_after_s=_SILENT_AFTER_S)
            tasks = [
                asyncio.create_task(_run_store(name, state, local, cluster, pods, clock))
                for name in names
            ]
            tasks.append(asyncio.create_task(_wake_changed(local, cluster)))
            try:
                yield RunningStores(state=state, names=names, lock=lock)
            finally:
                await cancel(tasks)
        for name in names:
            mark_stopped(state, name, time_of(utc(clock)))


async def _stored(files: Sequence[Path], state: StateDirectory, clock: Clock) -> LocalResources:
    """Stores the resources of files, while no command changes them."""
    async with editing(state):
        # Prepare again: the stored resources may have changed before the lock was taken.
        prepared = prepare(files, state)
        now = time_of(utc(clock))
        uids = {one.name: uid_on_volumes(state, one.name) or str(uuid4()) for one in prepared}
        return LocalResources(state, [store(one, state, uids[one.name], now) for one in prepared])


async def _wake_changed(resources: LocalResources, cluster: LocalCluster) -> None:
    """Begins the next round of a store when a command has changed its resource."""
    while True:
        await asyncio.sleep(_WATCH_S)
        for name in resources.names:
            if resources.has_changed(name):
                cluster.wake(name)


async def _run_store(
    name: StoreName,
    state: StateDirectory,
    resources: LocalResources,
    cluster: LocalCluster,
    pods: HttpPods,
    clock: Clock,
) -> None:
    intervals = Intervals()
    reconciler = StoreReconciler(
        name, resources=resources, cluster=cluster, pods=pods, clock=clock, intervals=intervals
    )

    async def run_round() -> bool | None:
        is_settled = await reconciler.run_round()
        state.mark_renewed(name)
        return is_settled

    await run_rounds(name, run_round, cluster.wait_for_change, intervals)


async def wait_until_ready(
    read: Callable[[], dict[StoreName, StoreStatus]],
    timeout_s: float,
    tell: Callable[[str], None] = lambda _: None,
) -> None:
    """Return when every store is Ready; raises StartFailedError with each store's reason.

    It raises at once, or after some seconds of the same reason, if waiting cannot help. tell: gets
    the stores that it waits for, after 2 s, after each change and every 10 s.
    """
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    reasons = ""
    since_s = began_s
    told, again_s = "", began_s + _TELL_AFTER_S
    while True:
        waiting = {
            name: status
            for name, status in read().items()
            if not is_ready(status) or _schema_refusal(status)
        }
        if not waiting:
            return
        now_s = loop.time()
        if (said := _reasons_of(waiting)) != reasons:
            reasons, since_s = said, now_s
        hopes_s = min(map(_hopes_for_s, waiting.values()))
        if now_s >= began_s + timeout_s or now_s - since_s >= hopes_s:
            raise StartFailedError(reasons)
        if now_s >= again_s or (told and reasons != told):
            told, again_s = reasons, now_s + _TELL_AGAIN_S
            tell(reasons)
        await asyncio.sleep(_WATCH_S)


async def wait_for_pods(
    read: Callable[[], dict[StoreName, StoreStatus]],
    timeout_s: float,
    tell: Callable[[str], None] = lambda _: None,
) -> list[str]:
    """Returns when every pod of stores that serve is ready, too, or after a timeout.

    Then the stores that lack pods are returned, as messages. tell: gets them after 2 s.
    """
    loop = asyncio.get_running_loop()
    began_s, is_told = loop.time(), False
    while missing := _without_pods(read()):
        waited_s = loop.time() - began_s
        if waited_s >= timeout_s:
            break
        if not is_told and waited_s >= _TELL_AFTER_S:
            is_told = True
            tell("\n".join(missing))
        await asyncio.sleep(_WATCH_S)
    return missing


def _without_pods(statuses: Mapping[StoreName, StoreStatus]) -> list[str]:
    counts = {name: (status.ready or "").split("/") for name, status in statuses.items()}
    return [
        f"{name}: {count[0]} of {count[1]} pods are ready"
        for name, count in counts.items()
        if len(count) == 2 and count[0] != count[1]
    ]


def _reasons_of(waiting: Mapping[StoreName, StoreStatus]) -> str:
    return "\n".join(
        f"{name}: {_schema_refusal(status) or why(status)}" for name, status in waiting.items()
    )


def _hopes_for_s(status: StoreStatus) -> float:
    """The seconds that the store's present reason may still pass by itself."""
    ready = status.condition(ConditionType.READY)
    if ready is None:
        return math.inf
    if WRONG_SETTINGS in ready.message:
        return _WRONG_SETTINGS_HOPE_S
    if _schema_refusal(status):
        return _OTHER_SCHEMA_HOPE_S
    return _HOPES_S.get(ready.reason, math.inf)


def _schema_refusal(status: StoreStatus) -> str | None:
    """The words of pods that refuse the schema of the resource, though they may serve their own."""
    said = (one for one in status.conditions or () if WRITTEN_WITH in one.message)
    return next((f"{one.reason}: {one.message}" for one in said), None)
