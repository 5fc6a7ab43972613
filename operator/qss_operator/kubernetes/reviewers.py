"""Who may ask the API server for reviews: the pods of stores that check their callers, no others.

The chart makes a ClusterRole with that right, and a ClusterRoleBinding without anybody in it. Here
the binding gets the ServiceAccount of each store while the store exists, so that the right goes
with it.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Protocol

from qss_core.errors import StoreError
from qss_core.model import StoreName
from qss_operator.kubernetes.errors import ForbiddenError, NotFoundError
from qss_operator.kubernetes.kinds import CLUSTER_ROLE_BINDINGS, STORES, Kind
from qss_operator.kubernetes.names import StoreNames
from qss_operator.kubernetes.requests import Object

logger = logging.getLogger(__name__)

_AGAIN_S = 5.0  # After a failure.
_ANEW_S = 600.0  # What no watch told, or somebody else wrote, is found by then.
_DELETED = "DELETED"

Account = tuple[str, str]  # Namespace and name.
Place = tuple[str, str]  # Namespace and store.


class ReviewersApi(Protocol):
    """What a KubernetesApi does for the binding."""

    async def list(self, kind: Kind, namespace: str | None) -> list[Object]:
        """All objects of a namespace, or of all."""
        ...

    async def get(self, kind: Kind, namespace: str | None, name: str) -> Object:
        """One object."""
        ...

    async def merge_patch(
        self, kind: Kind, namespace: str | None, name: str, patch: Object
    ) -> Object:
        """Changes members of an object."""
        ...


class Reviewers:
    """One binding, and the stores of the watched namespaces."""

    def __init__(
        self,
        api: ReviewersApi,
        binding: str,
        namespaces: Sequence[str],
        *,
        again_s: float = _AGAIN_S,
        anew_s: float = _ANEW_S,
    ) -> None:
        """`binding`: its name; empty where somebody else gives the right. No namespaces: all."""
        self._api = api
        self._binding = binding
        self._namespaces = tuple(namespaces)
        self._again_s = again_s
        self._anew_s = anew_s
        self._asking: dict[Place, bool] = {}
        self._woken = asyncio.Event()

    def seen(self, event: str | None, store: Object) -> None:
        """A watch brought this store; most changes are none of the binding's."""
        place = (store["metadata"]["namespace"], store["metadata"]["name"])
        asks = False if event == _DELETED else checks_callers(store)
        if self._asking.get(place, False) != asks:
            self._woken.set()
        if event == _DELETED:
            self._asking.pop(place, None)
        else:
            self._asking[place] = asks

    async def run(self) -> None:
        """Keeps the binding right until it is cancelled."""
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
            try:
                async with asyncio.timeout(pause_s):
                    await self._woken.wait()
            except TimeoutError:
                pass

    async def refresh(self) -> None:
        """Writes who is to be in the binding, if others are."""
        wanted: set[Account] = set()
        heard: set[str] = set()
        for namespace in self._namespaces:
            # One that is missing or forbidden stops nothing but itself; its watch tells of it.
            with suppress(ForbiddenError, NotFoundError):
                wanted |= accounts_of(await self._api.list(STORES, namespace))
                heard.add(namespace)
        if not self._namespaces:
            wanted |= accounts_of(await self._api.list(STORES, None))
        found = await self._api.get(CLUSTER_ROLE_BINDINGS, None, self._binding)
        subjects = found.get("subjects") or []
        # Stores of namespaces that are not watched any more go on, and need it.
        kept = {one for one in _accounts_in(subjects) if self._namespaces and one[0] not in heard}
        right = [_subject(*one) for one in sorted(wanted | kept)]
        if _sorted(subjects) == _sorted(right):
            return
        version = found["metadata"]["resourceVersion"]
        patch = {"metadata": {"resourceVersion": version}, "subjects": right or None}
        await self._api.merge_patch(CLUSTER_ROLE_BINDINGS, None, self._binding, patch)
        logger.info("%s accounts may ask for reviews, by %s", len(right), self._binding)


def checks_callers(store: Object) -> bool:
    """Whether the store's pods ask who calls; also where the resource says nothing readable."""
    access = (store.get("spec") or {}).get("access") or {}
    return access.get("authentication") != "None"


def accounts_of(stores: Iterable[Object]) -> set[Account]:
    """The ServiceAccounts of the pods of these stores, of those that check their callers."""
    found = set()
    for store in stores:
        if checks_callers(store):
            metadata = store["metadata"]
            name = StoreName(metadata["name"])
            names = StoreNames(namespace=metadata["namespace"], store=name)
            found.add((names.namespace, names.service_account))
    return found


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
