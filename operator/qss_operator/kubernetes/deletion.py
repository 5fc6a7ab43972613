"""How a store goes: its pods first, then its volumes if the policy says so, then the resource.

The finalizer keeps the resource until that is done; all other children go with their owner.
"""

import logging
from contextlib import suppress
from typing import Any

from qss_core.spec import WhenDeleted
from qss_operator.kubernetes.api import KubernetesApi
from qss_operator.kubernetes.errors import NotFoundError
from qss_operator.kubernetes.kinds import PERSISTENT_VOLUME_CLAIMS, PODS, STATEFUL_SETS, STORES
from qss_operator.kubernetes.live import LiveReads
from qss_operator.kubernetes.names import FINALIZER, StoreNames

logger = logging.getLogger(__name__)

Object = dict[str, Any]


class Deletion:
    """One store's end. Each call does what can be done now."""

    def __init__(self, api: KubernetesApi, live: LiveReads, names: StoreNames) -> None:
        """Nothing is deleted before the resource is."""
        self._api = api
        self._live = live
        self._names = names

    async def hold(self, store: Object) -> bool:
        """Has the resource wait for us when it is deleted; whether that was news to it."""
        finalizers = store["metadata"].get("finalizers") or []
        if FINALIZER in finalizers:
            return False
        await self._set_finalizers(store, [*finalizers, FINALIZER])
        return True

    async def run_round(self, store: Object) -> None:
        """The next step of the end."""
        namespace = self._names.namespace
        found = (await self._live.children(STATEFUL_SETS)).get(self._names.store)
        if found is not None and "deletionTimestamp" not in found["metadata"]:
            logger.info("%s: deleting the pods", self._names.store)
            uid = found["metadata"]["uid"]
            await self._api.delete(STATEFUL_SETS, namespace, self._names.store, uid=uid)
            self._live.forget(STATEFUL_SETS)
        if await self._live.children(PODS):
            return  # The watch tells when the last one is gone.
        if when_deleted(store) is WhenDeleted.DELETE:
            claims = await self._live.children(PERSISTENT_VOLUME_CLAIMS)
            for name, claim in claims.items():
                if "deletionTimestamp" not in claim["metadata"]:
                    logger.info("%s: deleting the volume %s", self._names.store, name)
                    uid = claim["metadata"]["uid"]
                    await self._api.delete(PERSISTENT_VOLUME_CLAIMS, namespace, name, uid=uid)
                    self._live.forget(PERSISTENT_VOLUME_CLAIMS)
            if claims:
                return
        kept = [one for one in store["metadata"].get("finalizers") or [] if one != FINALIZER]
        await self._set_finalizers(store, kept)

    async def _set_finalizers(self, store: Object, finalizers: list[str]) -> None:
        metadata = store["metadata"]
        if finalizers == (metadata.get("finalizers") or []):
            return
        patch = {
            "metadata": {
                "resourceVersion": metadata["resourceVersion"],
                "finalizers": finalizers or None,
            }
        }
        # What is left of it, if anything, is for the next round to read.
        self._live.forget(STORES)
        with suppress(NotFoundError):
            await self._api.merge_patch(STORES, self._names.namespace, metadata["name"], patch)


def when_deleted(store: Object) -> WhenDeleted:
    """The policy; Retain where it cannot be read."""
    given = (store.get("spec", {}).get("storage") or {}).get("whenDeleted")
    return WhenDeleted.DELETE if given == WhenDeleted.DELETE else WhenDeleted.RETAIN
