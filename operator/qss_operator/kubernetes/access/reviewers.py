"""Keeps the binding by which the pods of stores may ask the API server for reviews.

The chart makes a ClusterRole with that right, and a ClusterRoleBinding without subjects. The
operator adds the ServiceAccount of each store that checks its callers, and removes it when the
store is gone.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Protocol

from qss_core.errors import StoreError
from qss_operator.kubernetes.access.review_accounts import (
    Account,
    accounts_of,
    checks_callers,
    left_out,
    within_limits,
)
from qss_operator.kubernetes.api.errors import ForbiddenError, NotFoundError
from qss_operator.kubernetes.api.kinds import CLUSTER_ROLE_BINDINGS, STORES, Kind
from qss_operator.kubernetes.api.requests import Object

logger = logging.getLogger(__name__)

_AGAIN_S = 5.0  # After a failure.
_LOOK_S = 10.0  # The longest until a change of the binding by another client is noticed.
_ANEW_S = 600.0  # The longest until a change that no watch reported is found.
_TOLD_CHARS_MAX = 1000
_DELETED = "DELETED"

Place = tuple[str, str]  # Namespace and store.


class ReviewersApi(Protocol):
    """The methods of KubernetesApi that the binding needs."""

    async def list(self, kind: Kind, namespace: str | None) -> list[Object]:
        """All objects of a namespace, or of all."""
        ...

    async def get(self, kind: Kind, namespace: str | None, name: str) -> Object: ...

    async def merge_patch(
        self, kind: Kind, namespace: str | None, name: str, patch: Object
    ) -> Object: ...


class Reviewers:
    """One binding, and the stores of the watched namespaces."""

    def __init__(
        self,
        api: ReviewersApi,
        binding: str,
        namespaces: Sequence[str],
        *,
        again_s: float = _AGAIN_S,
        look_s: float = _LOOK_S,
        anew_s: float = _ANEW_S,
    ) -> None:
        """`binding`: its name; empty: it is not the operator's. Without namespaces: all."""
        self._api = api
        self._binding = binding
        self._namespaces = tuple(namespaces)
        self._again_s = again_s
        self._look_s = look_s
        self._anew_s = anew_s
        # The uid of each store that checks its callers; None for other stores.
        self._asking: dict[Place, str | None] = {}
        self._version: str | None = None  # The binding's version at the last read or write.
        self._left: dict[str, int] = {}
        self._woken = asyncio.Event()

    def seen(self, event: str | None, store: Object) -> None:
        """Takes a store from a watch; most changes do not affect the binding."""
        metadata = store["metadata"]
        place = (metadata["namespace"], metadata["name"])
        if event == _DELETED:
            self._asking.pop(place, None)
            self._woken.set()
            return
        uid = metadata["uid"] if checks_callers(store) else None
        if uid is not None and self._asking.get(place) != uid:
            self._woken.set()
        self._asking[place] = uid

    async def run(self) -> None:
        """Keeps the binding up to date until it is cancelled."""
        failed = ""
        while self._binding:
            self._woken.clear()
            try:
                await self.refresh()
                pause_s, failed = self._anew_s, ""
            except StoreError as error:
                if failed != error.code:
                    logger.warning(
                        "the ClusterRoleBinding %s is not brought up to date: %s. It is tried "
                        "again; until then pods of new stores cannot ask who calls them",
                        self._binding,
                        error.message,
                    )
                pause_s, failed = self._again_s, error.code
            except Exception:
                logger.exception("the ClusterRoleBinding %s is tried again", self._binding)
                pause_s = self._again_s
            await self._rest(pause_s)

    async def _rest(self, pause_s: float) -> None:
        """Waits until an update is due, at most `pause_s`."""
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + pause_s
        while (left_s := ends_s - loop.time()) > 0:
            try:
                async with asyncio.timeout(min(left_s, self._look_s)):
                    await self._woken.wait()
            except TimeoutError:
                if not await self._was_written():
                    continue
            return

    async def _was_written(self) -> bool:
        """Whether another client wrote the binding, as an upgrade of the chart does."""
        try:
            found = await self._api.get(CLUSTER_ROLE_BINDINGS, None, self._binding)
        except StoreError as error:
            logger.debug("the ClusterRoleBinding %s: %s", self._binding, error.message)
            return True
        version: str = found["metadata"]["resourceVersion"]
        return version != self._version

    async def refresh(self) -> None:
        """Writes the accounts into the binding if they differ."""
        heard = await self._stores()
        found = await self._api.get(CLUSTER_ROLE_BINDINGS, None, self._binding)
        subjects = found.get("subjects") or []
        bound = frozenset(_accounts_in(subjects))
        made = accounts_of((one for stores in heard.values() for one in stores), bound)
        # Stores of namespaces that are no longer watched still run, and keep their place.
        made |= {one: "" for one in bound if self._namespaces and one[0] not in heard}
        taken = within_limits(made, bound)
        self._tell_left_out(left_out(made, taken))
        right = [_subject(*one) for one in sorted(taken)]
        if _sorted(subjects) != _sorted(right):
            version = found["metadata"]["resourceVersion"]
            patch = {"metadata": {"resourceVersion": version}, "subjects": right or None}
            found = await self._api.merge_patch(CLUSTER_ROLE_BINDINGS, None, self._binding, patch)
            logger.info("%s accounts may ask for reviews, by %s", len(right), self._binding)
        self._version = found["metadata"]["resourceVersion"]

    async def _stores(self) -> dict[str, list[Object]]:
        """All stores, by watched namespace."""
        if not self._namespaces:
            return {"": await self._api.list(STORES, None)}
        heard = {}
        for namespace in self._namespaces:
            # A missing or forbidden namespace is left out; its watch reports it.
            with suppress(ForbiddenError, NotFoundError):
                heard[namespace] = await self._api.list(STORES, namespace)
        return heard

    def _tell_left_out(self, left: dict[str, int]) -> None:
        if left and left != self._left:
            told = ", ".join(f"{number} of {namespace}" for namespace, number in left.items())
            logger.warning(
                "the ClusterRoleBinding %s has no place for the accounts of these stores: %s. "
                "Their pods answer 503 to everybody; set a ResourceQuota "
                "(count/queryablestatestores.queryablestate.dev), or delete stores",
                self._binding,
                told[:_TOLD_CHARS_MAX],
            )
        self._left = left


def _accounts_in(subjects: Iterable[Object]) -> set[Account]:
    return {
        (one["namespace"], one["name"]) for one in subjects if one.get("kind") == "ServiceAccount"
    }


def _subject(namespace: str, name: str) -> Object:
    return {"kind": "ServiceAccount", "name": name, "namespace": namespace}


def _sorted(subjects: Iterable[Object]) -> list[tuple[str, str, str]]:
    return sorted(
        (str(one.get("kind")), str(one.get("namespace")), str(one.get("name"))) for one in subjects
    )
