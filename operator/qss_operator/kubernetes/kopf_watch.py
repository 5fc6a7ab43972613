"""kopf's watches of one namespace, or of all, in a thread with an event loop of their own.

kopf ends every task of its event loop when one of its watches ends. Because kopf has its own event
loop, it cannot end the operator's tasks.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import kopf
from kopf._cogs.structs.credentials import Vault  # kopf takes one, and exports none: `~=`.

from qss_operator.kubernetes.api.kinds import STORES, Kind
from qss_operator.kubernetes.api.requests import Object
from qss_operator.kubernetes.names import GROUP, STORE_LABEL

logger = logging.getLogger(__name__)

# A change from a watch: the kind, the event (None for objects older than the watch), the object.
Seen = Callable[[Kind, str | None, Object], None]

# kopf repeats a failed request after these pauses. Then the watch ends, and `watches.py` starts it
# again.
BACKOFFS_S = (1.0, 2.0, 4.0, 8.0)


class WatchThread:
    """Watches one namespace, or all, from `start` until `stop` or until kopf gives up."""

    def __init__(
        self,
        namespace: str | None,
        children: Sequence[Kind],
        seen: Seen,
        *,
        backoffs_s: Sequence[float] = BACKOFFS_S,
    ) -> None:
        """`seen` is called in the event loop that starts the thread."""
        self._namespace = namespace
        self._children = children
        self._seen = seen
        self._backoffs_s = backoffs_s
        self._owner = asyncio.get_running_loop()
        self._own: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._is_stopped = threading.Event()
        self.ended: asyncio.Future[str] = self._owner.create_future()

    def start(self) -> None:
        """Starts the watch; `ended` gets the reason of its end."""
        name = f"watch-{self._namespace or 'all'}"
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def stop(self) -> None:
        """Asks kopf to end, without waiting; later changes from kopf are ignored."""
        self._is_stopped.set()
        own, stop = self._own, self._stop
        if own is not None and stop is not None:
            with suppress(RuntimeError):  # The loop has ended already.
                own.call_soon_threadsafe(stop.set)

    def _run(self) -> None:
        try:
            asyncio.run(self._watch())
        except asyncio.CancelledError:
            self._tell(self._end, "it was cancelled")
        # An error that ends kopf becomes the result of `ended`; `watches.py` starts a new watch.
        except Exception as error:  # noqa: BLE001
            self._tell(self._end, f"{type(error).__name__}: {error}")
        else:
            self._tell(self._end, "it ended without an error")

    async def _watch(self) -> None:
        self._own, self._stop = asyncio.get_running_loop(), asyncio.Event()
        if self._is_stopped.is_set():
            return
        # Errors of kopf's tasks: kopf raises the first one itself, so debug lines are enough.
        self._own.set_exception_handler(lambda _, context: logger.debug("kopf: %s", context))
        registry = kopf.OperatorRegistry()
        kopf.on.login(registry=registry)(_log_in)
        for kind in (STORES, *self._children):
            self._register(registry, kind)
        vault = Vault()
        try:
            await kopf.operator(
                registry=registry,
                settings=watch_settings(self._children, self._backoffs_s),
                standalone=True,
                clusterwide=self._namespace is None,
                namespaces=[self._namespace] if self._namespace is not None else [],
                stop_flag=self._stop,
                vault=vault,
            )
        finally:
            # kopf itself leaves its connections open where its clean-up is cut short.
            await vault.close()

    def _register(self, registry: kopf.OperatorRegistry, kind: Kind) -> None:
        async def seen(event: Any, **_: Any) -> None:
            self._tell(self._hear, kind, event["type"], dict(event["object"]))

        kopf.on.event(
            kind.group, kind.version, kind.plural, id=f"see-{kind.plural}", registry=registry
        )(seen)

    def _tell(self, call: Callable[..., None], *arguments: Any) -> None:
        with suppress(RuntimeError):  # The process ends, and its event loop is closed.
            self._owner.call_soon_threadsafe(call, *arguments)

    def _hear(self, kind: Kind, event: str | None, body: Object) -> None:
        if not self._is_stopped.is_set():
            self._seen(kind, event, body)

    def _end(self, why: str) -> None:
        if not self.ended.done():
            self.ended.set_result(why)


def _log_in(settings: kopf.OperatorSettings, **_: Any) -> kopf.ConnectionInfo | None:
    """Logs in with the pod's service account, else with the kubeconfig that KUBECONFIG names."""
    return kopf.login_with_service_account(settings=settings) or kopf.login_with_kubeconfig(
        settings=settings
    )


def watch_settings(
    children: Sequence[Kind], backoffs_s: Sequence[float] = BACKOFFS_S
) -> kopf.OperatorSettings:
    """Settings that keep kopf's own writes and its waits small."""
    settings = kopf.OperatorSettings()
    settings.peering.standalone = True
    settings.scanning.disabled = True
    settings.posting.enabled = False
    for kind in children:
        name = f"{kind.plural}.{kind.group}" if kind.group else kind.plural
        settings.watching.label_selectors[name] = STORE_LABEL
    settings.watching.server_timeout = 270
    settings.watching.connect_timeout = 10
    settings.networking.request_timeout = 30
    settings.networking.connect_timeout = 5
    settings.networking.error_backoffs = tuple(backoffs_s)
    settings.persistence.finalizer = f"{GROUP}/kopf"
    settings.queueing.worker_limit = 64
    settings.process.ultimate_exiting_timeout = 10
    return settings
