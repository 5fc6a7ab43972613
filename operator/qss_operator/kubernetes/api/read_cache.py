"""Keeps the API server's last answers, and reads again after a watch saw a change.

The operator never plans from a watch's own copy, which may be late. A watch only tells that the
last answer is out of date. A watch may miss a change: kopf reports no object that went between two
of its lists, and its first list comes after the first read. So a new answer is trusted for
`TRUST_S`, then longer each time that a further read finds it unchanged, up to `RESYNC_S`: a store
at rest costs next to no requests.
"""

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from qss_client.clock import Clock
from qss_operator.kubernetes.api.kinds import STORES, Kind
from qss_operator.kubernetes.api.requests import Object

TRUST_S = 10.0
RESYNC_S = 600.0
_TRUST_GROWS = 3.0


class ReadApi(Protocol):
    """The methods of KubernetesApi that read objects."""

    async def find(self, kind: Kind, namespace: str | None, name: str) -> Object | None:
        """The object, or None where it does not exist."""
        ...

    async def list(
        self, kind: Kind, namespace: str | None, label_selector: str | None = None
    ) -> list[Object]:
        """All objects with these labels."""
        ...


@dataclass(slots=True)
class _Answer:
    objects: list[Object]
    read_at_s: float
    trust_s: float = TRUST_S


class ReadCache:
    """The API server's last answers on one store and its children."""

    def __init__(
        self,
        api: ReadApi,
        namespace: str,
        store: str,
        selector: str,
        *,
        clock: Clock,
        on_missed: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Reads no object; `on_missed` gets a kind that changed although no watch reported it.

        Not before an answer was read twice: the watch may have begun after the first read.
        """
        self._api = api
        self._namespace = namespace
        self._store = store
        self._selector = selector
        self._clock = clock
        self._on_missed = on_missed
        self._answers: dict[Kind, _Answer] = {}
        self._changes: Counter[Kind] = Counter()  # Changes by kind: one during a read outdates it.

    def changed(self, kind: Kind, name: str, version: str | None) -> bool:
        """Takes a version that a watch saw (None: deleted); returns whether it is a new one."""
        answer = self._answers.get(kind)
        if answer is not None and _versions(answer.objects).get(name) == version:
            return False
        self.forget(kind)
        return True

    def forget(self, kind: Kind) -> None:
        """Read this kind anew the next time."""
        self._changes[kind] += 1
        self._answers.pop(kind, None)

    def forget_all(self) -> None:
        """Read everything anew the next time."""
        for kind in list(self._answers):
            self.forget(kind)

    def written(self, kind: Kind, written: Object) -> None:
        """Takes the API server's answer to the operator's own write."""
        answer = self._answers.get(kind)
        if answer is not None:
            name = written["metadata"]["name"]
            answer.objects = [one for one in answer.objects if one["metadata"]["name"] != name]
            answer.objects.append(written)

    async def store(self) -> Object | None:
        found = await self._read(STORES, self._find_store)
        return found[0] if found else None

    async def children(self, kind: Kind) -> dict[str, Object]:
        """The store's children of a kind, by name."""
        found = await self._read(
            kind, lambda: self._api.list(kind, self._namespace, self._selector)
        )
        return {one["metadata"]["name"]: one for one in found}

    async def _read(self, kind: Kind, ask: Callable[[], Awaitable[list[Object]]]) -> list[Object]:
        answer = self._answers.get(kind)
        if answer is not None and self._clock.monotonic_s() - answer.read_at_s <= answer.trust_s:
            return answer.objects
        before, started_s = self._changes[kind], self._clock.monotonic_s()
        objects = await ask()
        if self._changes[kind] != before:
            return objects
        self._answers[kind] = new = _Answer(objects, started_s)
        if answer is not None:
            if _versions(answer.objects) == _versions(objects):
                new.trust_s = min(RESYNC_S, answer.trust_s * _TRUST_GROWS)
            elif answer.trust_s > TRUST_S:
                self._on_missed(kind.plural)
        return objects

    async def _find_store(self) -> list[Object]:
        found = await self._api.find(STORES, self._namespace, self._store)
        return [found] if found is not None else []


def _versions(objects: list[Object]) -> dict[str, str | None]:
    return {one["metadata"]["name"]: one["metadata"].get("resourceVersion") for one in objects}
