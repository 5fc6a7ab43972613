"""Deletes a store: its pods, then its volumes if the policy says so, then the resource.

The finalizer keeps a resource until its volumes are deleted. If the volumes stay, the resource has
no finalizer, and Kubernetes deletes its children with it.
"""

import logging
import math
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from qss_client.clock import Clock
from qss_core.spec.resource import WhenDeleted
from qss_core.text import listed
from qss_operator.kubernetes.api.client import KubernetesApi
from qss_operator.kubernetes.api.errors import ForbiddenError, KindNotServedError, NotFoundError
from qss_operator.kubernetes.api.kinds import PERSISTENT_VOLUME_CLAIMS, PODS, STATEFUL_SETS, STORES
from qss_operator.kubernetes.api.read_cache import ReadCache
from qss_operator.kubernetes.names import FINALIZER, StoreNames

logger = logging.getLogger(__name__)

Object = dict[str, Any]

_TOLD_EVERY_S = 1.0
_NAMED_MAX = 5
_CLEAN_UP_WITHIN_S = 120.0


class Deletion:
    """The deletion of one store. Each call does all that is possible now."""

    def __init__(
        self,
        api: KubernetesApi,
        cache: ReadCache,
        names: StoreNames,
        clock: Clock,
    ) -> None:
        """The deletion begins after the deletion of the resource."""
        self._api = api
        self._cache = cache
        self._names = names
        self._clock = clock
        self._told_next_s = -math.inf
        self._gone_at_s: float | None = None

    async def hold(self, store: Object) -> bool:
        """Adds the finalizer if the volumes are to be deleted with the resource.

        Returns whether that changed the resource.
        """
        finalizers = store["metadata"].get("finalizers") or []
        others = [one for one in finalizers if one != FINALIZER]
        wanted = [*others, FINALIZER] if when_deleted(store) is WhenDeleted.DELETE else others
        if set(wanted) == set(finalizers):
            return False
        await self._set_finalizers(store, wanted)
        return True

    async def clean_up(self) -> bool:
        """Deletes claims without a volume after the resource is gone; returns whether it is done.

        Such claims hold no data, and a later store of the same name would wait for them.
        """
        now_s = self._clock.monotonic_s()
        if self._gone_at_s is None:
            self._gone_at_s = now_s
        try:
            claims = await self._cache.children(PERSISTENT_VOLUME_CLAIMS)
            unbound = [
                claim
                for name, claim in claims.items()
                if self._names.is_claim(name) and _was_never_bound(claim)
            ]
            if not unbound or now_s - self._gone_at_s > _CLEAN_UP_WITHIN_S:
                return True
            if await self._cache.children(STATEFUL_SETS) or await self._cache.children(PODS):
                return False  # The pods may still get a volume, or be made again.
            for claim in unbound:
                await self._delete_claim(claim)
        except (ForbiddenError, NotFoundError, KindNotServedError) as error:
            logger.info("%s: claims without a volume may be left: %s", self._names.store, error)
        return True

    async def _delete_claim(self, claim: Object) -> None:
        metadata = claim["metadata"]
        logger.info("%s: deleting the claim %s", self._names.store, metadata["name"])
        await self._api.delete(
            PERSISTENT_VOLUME_CLAIMS,
            self._names.namespace,
            metadata["name"],
            uid=metadata["uid"],
            resource_version=metadata["resourceVersion"],
        )

    async def run_round(self, store: Object) -> str | None:
        """Does the next step.

        Returns the reason of the wait, at most once per `_TOLD_EVERY_S`, else None.
        """
        waits = await self._next_step(store)
        now_s = self._clock.monotonic_s()
        if waits is None or now_s < self._told_next_s:
            return None
        self._told_next_s = now_s + _TOLD_EVERY_S
        return waits

    async def _next_step(self, store: Object) -> str | None:
        """Does the next step; returns the reason of the wait, or None."""
        namespace = self._names.namespace
        found = (await self._cache.children(STATEFUL_SETS)).get(self._names.store)
        if found is not None and "deletionTimestamp" not in found["metadata"]:
            logger.info("%s: deleting the pods", self._names.store)
            uid = found["metadata"]["uid"]
            await self._api.delete(STATEFUL_SETS, namespace, self._names.store, uid=uid)
            self._cache.forget(STATEFUL_SETS)
        if pods := await self._cache.children(PODS):
            return _waits_for_pods(pods)  # The watch reports the end of the last one.
        if when_deleted(store) is WhenDeleted.DELETE:
            labelled = await self._cache.children(PERSISTENT_VOLUME_CLAIMS)
            # A copy of a volume, as a backup, may have the label, too.
            claims = {name: one for name, one in labelled.items() if self._names.is_claim(name)}
            for name, claim in claims.items():
                if "deletionTimestamp" not in claim["metadata"]:
                    logger.info("%s: deleting the volume %s", self._names.store, name)
                    uid = claim["metadata"]["uid"]
                    await self._api.delete(PERSISTENT_VOLUME_CLAIMS, namespace, name, uid=uid)
                    self._cache.forget(PERSISTENT_VOLUME_CLAIMS)
            if claims:
                return _waits_for("volumes", claims)
        kept = [one for one in store["metadata"].get("finalizers") or [] if one != FINALIZER]
        await self._set_finalizers(store, kept)
        return None

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
        # The next round reads the rest of the object, if there is one.
        self._cache.forget(STORES)
        with suppress(NotFoundError):
            await self._api.merge_patch(STORES, self._names.namespace, metadata["name"], patch)


def _was_never_bound(claim: Object) -> bool:
    phase = (claim.get("status") or {}).get("phase")
    return phase == "Pending" and not claim.get("spec", {}).get("volumeName")


def _waits_for_pods(pods: Mapping[str, Object]) -> str:
    nodes = sorted({(pod.get("spec") or {}).get("nodeName") or "" for pod in pods.values()} - {""})
    on = f" on {', '.join(nodes)}: a pod ends when its node says so" if nodes else ""
    return f"{_waits_for('pods', pods)}{on}"


def _waits_for(what: str, objects: Mapping[str, Object]) -> str:
    names = listed(sorted(objects), _NAMED_MAX)
    return f"the store is deleted when these {what} are gone: {names}"


def when_deleted(store: Object) -> WhenDeleted:
    """The policy; Retain if it cannot be read."""
    given = (store.get("spec", {}).get("storage") or {}).get("whenDeleted")
    return WhenDeleted.DELETE if given == WhenDeleted.DELETE else WhenDeleted.RETAIN
