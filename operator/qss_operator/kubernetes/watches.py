"""Supervises the watches: a missing or forbidden namespace stops only its own watch.

A watch that ended is started again, as soon as the API server lists the stores of its namespace.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from qss_client.clock import Clock
from qss_core.errors import StoreError
from qss_operator.kubernetes.api.errors import KindNotServedError
from qss_operator.kubernetes.api.kinds import (
    NETWORK_POLICIES,
    PERSISTENT_VOLUME_CLAIMS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    SERVICE_ACCOUNTS,
    SERVICES,
    STATEFUL_SETS,
    STORES,
    Kind,
)
from qss_operator.kubernetes.api.read_cache import RESYNC_S, ReadApi
from qss_operator.kubernetes.api.requests import Object
from qss_operator.kubernetes.kopf_watch import Seen, WatchThread
from qss_operator.kubernetes.leadership.health import Health
from qss_operator.kubernetes.stores import Stores

logger = logging.getLogger(__name__)

CHILDREN = (
    STATEFUL_SETS,
    PODS,
    PERSISTENT_VOLUME_CLAIMS,
    SERVICES,
    SERVICE_ACCOUNTS,
    POD_DISRUPTION_BUDGETS,
    NETWORK_POLICIES,
)
_CRD_INTERVAL_S = 5.0
_AGAIN_S = 5.0
_AGAIN_S_MAX = 30.0
_TOLD_EVERY_S = 60.0
_END_S = 3.0

Sleep = Callable[[float], Awaitable[None]]


class Watch(Protocol):
    """The members of a WatchThread that its supervisor uses."""

    ended: "asyncio.Future[str]"

    def start(self) -> None: ...

    def stop(self) -> None: ...


def thread_of(namespace: str | None, seen: Seen) -> Watch:
    return WatchThread(namespace, CHILDREN, seen)


async def wait_for_stores(api: ReadApi, namespaces: Sequence[str], sleep: Sleep) -> None:
    """Returns when the API server serves the resource: kopf looks for resources only once.

    Other errors end the wait, too: the watches will meet and report them.
    """
    namespace = namespaces[0] if namespaces else None
    while True:
        try:
            await api.list(STORES, namespace)
        except KindNotServedError:
            logger.warning(
                "the cluster has no resource %s.%s: apply the CRD (crds.install of the chart)",
                STORES.plural,
                STORES.group,
            )
        except StoreError:
            return
        else:
            return
        await sleep(_CRD_INTERVAL_S)


class Watches:
    """All watches of an operator; each namespace has its own watch, which starts and ends alone."""

    def __init__(
        self,
        api: ReadApi,
        stores: Stores,
        health: Health,
        *,
        clock: Clock,
        sleep: Sleep = asyncio.sleep,
        watch_of: Callable[[str | None, Seen], Watch] = thread_of,
        resync_s: float = RESYNC_S,
        end_s: float = _END_S,
    ) -> None:
        """Nothing is watched before `run`."""
        self._api = api
        self._stores = stores
        self._health = health
        self._clock = clock
        self._sleep = sleep
        self._watch_of = watch_of
        self._resync_s = resync_s
        self._end_s = end_s

    async def run(self, namespaces: Sequence[str]) -> None:
        """Watches the given namespaces, or all, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for namespace in namespaces or (None,):
                group.create_task(self._run_one(namespace))

    async def _run_one(self, namespace: str | None) -> None:
        trouble = _Trouble(namespace, self._clock)
        while True:
            try:
                await self._list(namespace)
            except StoreError as error:
                trouble.tell(error.message)
                await self._sleep(trouble.pause_s())
                continue
            trouble.is_over()
            trouble.tell(await self._watch(namespace, trouble))
            # The stores read the changes that no watch reports meanwhile.
            self._stores.distrust(namespace)
            await self._sleep(trouble.pause_s())

    async def _watch(self, namespace: str | None, trouble: "_Trouble") -> str:
        """Watches until the watch ends; returns the reason of its end."""
        watch = self._watch_of(namespace, self._seen)
        watch.start()
        try:
            while True:
                done, _ = await asyncio.wait((watch.ended,), timeout=self._resync_s)
                if done:
                    return f"the watch has stopped: {watch.ended.result()}"
                trouble.forget()
                await self._find_unseen(namespace)
        finally:
            watch.stop()
            # A thread that still runs when the process ends may break the last log lines.
            await asyncio.wait((watch.ended,), timeout=self._end_s)

    async def _list(self, namespace: str | None) -> int:
        """Starts the loops of the stores that exist; returns how many no watch had reported."""
        found = await self._api.list(STORES, namespace)
        return sum(self._stores.found(store) for store in found)

    async def _find_unseen(self, namespace: str | None) -> None:
        """Finds stores that the watch failed to report."""
        try:
            missed = await self._list(namespace)
        except StoreError as error:
            logger.debug("%s", error.message)
            return
        for _ in range(missed):
            self._health.missed(STORES.plural)

    def _seen(self, kind: Kind, event: str | None, body: Object) -> None:
        self._health.heard(kind.plural)
        self._stores.seen(kind, event, body)


class _Trouble:
    """Logs the failures of one namespace, one line a minute, and chooses the next pause."""

    def __init__(self, namespace: str | None, clock: Clock) -> None:
        self._where = f"the namespace {namespace}" if namespace else "the cluster"
        self._clock = clock
        self._told_at_s: float | None = None
        self._times = 0

    def tell(self, message: str) -> None:
        self._times += 1
        now_s = self._clock.monotonic_s()
        if self._told_at_s is not None and now_s - self._told_at_s < _TOLD_EVERY_S:
            return
        self._told_at_s = now_s
        logger.warning(
            "the stores of %s are not watched: %s. The operator will start the watch again; "
            "watches of other namespaces go on",
            self._where,
            message,
        )

    def is_over(self) -> None:
        if self._told_at_s is not None:
            logger.info("%s is watched again", self._where)

    def forget(self) -> None:
        self._told_at_s, self._times = None, 0

    def pause_s(self) -> float:
        return min(_AGAIN_S_MAX, _AGAIN_S * 2.0 ** min(self._times - 1, 10))
