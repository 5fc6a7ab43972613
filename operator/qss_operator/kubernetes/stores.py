"""All stores of an operator: one StoreLoop for each, which the watches wake."""

import asyncio
import logging

from qss_core.model import StoreName
from qss_operator.kubernetes.access.reviewers import Reviewers
from qss_operator.kubernetes.api.kinds import STORES, Kind
from qss_operator.kubernetes.api.requests import Object
from qss_operator.kubernetes.names import store_of
from qss_operator.kubernetes.store_loop import StoreContext, StoreLoop

logger = logging.getLogger(__name__)

_DELETED = "DELETED"


class Stores:
    def __init__(self, shared: StoreContext, reviewers: Reviewers | None = None) -> None:
        """Has no store yet. `reviewers` gets each change of a store."""
        self._shared = shared
        self._reviewers = reviewers
        self._loops: dict[tuple[str, str], StoreLoop] = {}
        # The uid of the resource that a watch saw last.
        self._newest: dict[tuple[str, str], str] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def seen(self, kind: Kind, event: str | None, body: Object) -> None:
        """Takes an object from a watch; `event` is None for objects older than the watch."""
        metadata = body["metadata"]
        store = metadata["name"] if kind == STORES else _store_of(metadata)
        if store is None:
            return
        place = (metadata["namespace"], store)
        if kind == STORES:
            self._note(place, event, metadata["uid"])
            if self._reviewers is not None:
                self._reviewers.seen(event, body)
        loop = self._loops.get(place)
        if loop is None:
            if kind != STORES or event == _DELETED:
                return
            loop = self._begin(place)
        version = None if event == _DELETED else metadata.get("resourceVersion")
        loop.changed(kind, metadata["name"], version)

    def found(self, store: Object) -> bool:
        """Takes a store from a list; returns whether no watch had reported it."""
        metadata = store["metadata"]
        if (metadata["namespace"], metadata["name"]) in self._loops:
            return False
        self.seen(STORES, None, store)
        return True

    def distrust(self, namespace: str | None) -> None:
        """Reads everything of a namespace, or of all, anew: watches may have missed changes."""
        for (where, _), loop in self._loops.items():
            if namespace in (None, where):
                loop.distrust()

    def _note(self, place: tuple[str, str], event: str | None, uid: str) -> None:
        if event != _DELETED:
            self._newest[place] = uid
        elif self._newest.get(place) == uid:
            del self._newest[place]

    def _begin(self, place: tuple[str, str]) -> StoreLoop:
        namespace, store = place
        loop = StoreLoop(namespace, StoreName(store), self._shared)
        self._loops[place] = loop
        task = asyncio.create_task(
            self._run(loop, self._newest[place]), name=f"{namespace}/{store}"
        )
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._shared.metrics.has_stores(len(self._loops))
        return loop

    async def _run(self, loop: StoreLoop, uid: str) -> None:
        place = (loop.names.namespace, str(loop.names.store))
        try:
            await loop.run()
        except Exception:
            # The store's next round stays due, which makes `/livez` fail.
            logger.exception("the loop of store %s/%s has ended with an error", *place)
            raise
        finally:
            self._loops.pop(place, None)
            self._shared.metrics.forget(*place)
            self._shared.metrics.has_stores(len(self._loops))
        logger.info("%s/%s is gone", *place)
        if self._newest.get(place, uid) != uid:
            # The resource was created again before the loop of the deleted one had ended.
            self._begin(place).wake()

    async def stop(self) -> None:
        """Ends every loop; the next operator continues the work that was begun."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _store_of(metadata: Object) -> str | None:
    """The store that owns a child; the label counts only without an owner: people may edit it."""
    for owner in metadata.get("ownerReferences") or ():
        if owner["kind"] == STORES.kind and owner["apiVersion"] == STORES.api_version:
            name: str = owner["name"]
            return name
    return store_of(metadata.get("labels"))
