"""Reads the nodes of pods: their labels, and whether they are cordoned. All stores share it.

A node is read once, and again where the answer matters: before a pod gets a new replica (`anew`),
and every `_CORDONED_S` while the node is cordoned, since stores may wait for the end of that. A
watch would hear of every node of the cluster, and needs the right to list them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from qss_client.clock import Clock
from qss_core.errors import StoreError
from qss_operator.kubernetes.api.kinds import NODES
from qss_operator.kubernetes.api.read_cache import ReadApi
from qss_operator.kubernetes.api.requests import Object

_NODES_MAX = 10_000
_CORDONED_S = 30.0
_ANEW_S = 2.0  # An answer of this age is as good as a new one.


@dataclass(frozen=True, slots=True)
class Node:
    """A node; without labels and not cordoned where it cannot be read."""

    labels: Mapping[str, str] = field(default_factory=dict)
    is_cordoned: bool = False


class Nodes:
    """The nodes by name, as they were read last."""

    def __init__(self, api: ReadApi, *, may_read: bool, clock: Clock) -> None:
        """Without `may_read` no node is known: an operator of some namespaces reads no nodes."""
        self._api = api
        self._may_read = may_read
        self._clock = clock
        self._seen: dict[str, tuple[Node, float]] = {}

    async def of(self, name: str | None) -> Node:
        """The node as it was read last."""
        seen = self._seen.get(name or "")
        if seen is not None and not seen[0].is_cordoned:
            return seen[0]
        return await self._read(name, _CORDONED_S)

    async def anew(self, name: str | None) -> Node:
        """The node as it is now; as it was read last where it cannot be read."""
        return await self._read(name, _ANEW_S)

    async def _read(self, name: str | None, trust_s: float) -> Node:
        if not name or not self._may_read:
            return Node()
        now_s = self._clock.monotonic_s()
        node, read_at_s = self._seen.get(name, (Node(), None))
        if read_at_s is not None and now_s - read_at_s < trust_s:
            return node
        try:
            found = await self._api.find(NODES, None, name)
        except StoreError:
            return node  # The next call reads the node again.
        # The pods of a node that is gone go, too: until then its zone stays as it was.
        node = node_of(found) if found is not None else node
        if len(self._seen) >= _NODES_MAX:
            self._seen.clear()
        self._seen[name] = node, now_s
        return node


def node_of(found: Object) -> Node:
    """The state of a node, as its object at the API server tells it."""
    labels = found["metadata"].get("labels") or {}
    is_cordoned = (found.get("spec") or {}).get("unschedulable") is True
    return Node(labels=labels, is_cordoned=is_cordoned)
