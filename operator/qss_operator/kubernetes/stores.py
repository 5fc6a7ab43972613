"""All stores of an operator: a loop for each, woken by what the watches see."""

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
        """None yet. `reviewers` hears of them, too."""
        self._shared = shared
        self._reviewers = reviewers
        self._keepers: dict[tuple[str, str], StoreLoop] = {}
        # The uid of the resource that a watch saw last.
        self._newest: dict[tuple[str, str], str] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def seen(self, kind: Kind, event: str | None, body: Object) -> None:
        """A watch brought this; `event` is None for what was there when the watch began."""
        metadata = body["metadata"]
        store = metadata["name"] if kind == STORES else _store_of(metadata)
        if store is None:
            return
        place = (metadata["namespace"], store)
        if kind == STORES:
            self._note(place, event, metadata["uid"])
            if self._reviewers is not None:
                self._reviewers.seen(event, body)
        keeper = self._keepers.get(place)
        if keeper is None:
            if kind != STORES or event == _DELETED:
                return
            keeper = self._begin(place)
        version = None if event == _DELETED else metadata.get("resourceVersion")
        keeper.changed(kind, metadata["name"], version)

    def found(self, store: Object) -> bool:
        """A list has this store: whether it is news, since no watch told it."""
        metadata = store["metadata"]
        if (metadata["namespace"], metadata["name"]) in self._keepers:
            return False
        self.seen(STORES, None, store)
        return True

    def distrust(self, namespace: str | None) -> None:
        """Changes in a namespace, or in all, may not have been told: all is read anew."""
        for (where, _), keeper in self._keepers.items():
            if namespace in (None, where):
                keeper.distrust()

    def _note(self, place: tuple[str, str], event: str | None, uid: str) -> None:
        if event != _DELETED:
            self._newest[place] = uid
        elif self._newest.get(place) == uid:
            del self._newest[place]

    def _begin(self, place: tuple[str, str]) -> StoreLoop:
        namespace, store = place
        keeper = StoreLoop(namespace, StoreName(store), self._shared)
        self._keepers[place] = keeper
        task = asyncio.create_task(
            self._run(keeper, self._newest[place]), name=f"{namespace}/{store}"
        )
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._shared.metrics.has_stores(len(self._keepers))
        return keeper

    async def _run(self, keeper: StoreLoop, uid: str) -> None:
        place = (keeper.names.namespace, str(keeper.names.store))
        try:
            await keeper.run()
        except Exception:
            # Its next round stays due, and `/livez` says so.
            logger.exception("%s/%s is not looked after any more", *place)
            raise
        finally:
            self._keepers.pop(place, None)
            self._shared.metrics.saw(*place, is_ready=None)
            self._shared.metrics.degraded(*place, None)
            self._shared.metrics.has_stores(len(self._keepers))
        logger.info("%s/%s is gone", *place)
        if self._newest.get(place, uid) != uid:
            # It was made again while the keeper still heard that there is none.
            self._begin(place).wake()

    async def stop(self) -> None:
        """Ends every loop; what was begun is gone on with by the next operator."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _store_of(metadata: Object) -> str | None:
    """The store that a child belongs to: its owner, since a label may have been edited by hand."""
    for owner in metadata.get("ownerReferences") or ():
        if owner["kind"] == STORES.kind and owner["apiVersion"] == STORES.api_version:
            name: str = owner["name"]
            return name
    return store_of(metadata.get("labels"))
