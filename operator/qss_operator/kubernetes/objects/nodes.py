"""Reads the zones of nodes, once for each node: these labels rarely change."""

from qss_core.errors import StoreError
from qss_operator.kubernetes.api.kinds import NODES
from qss_operator.kubernetes.api.read_cache import ReadApi

_NODES_MAX = 10_000


class Zones:
    """By node name, for one label."""

    def __init__(self, api: ReadApi, key: str, *, may_read: bool) -> None:
        """Without `may_read` there are no zones: an operator of some namespaces reads no nodes."""
        self._api = api
        self._key = key
        self._may_read = may_read
        self._zones: dict[str, str] = {}

    async def of(self, node: str | None) -> str:
        """The node's zone, or "" where it is not known."""
        if not node or not self._may_read:
            return ""
        if node not in self._zones:
            if len(self._zones) >= _NODES_MAX:
                self._zones.clear()
            try:
                self._zones[node] = await self._read(node)
            except StoreError:
                return ""  # The next call reads the node again.
        return self._zones[node]

    async def _read(self, node: str) -> str:
        found = await self._api.find(NODES, None, node)
        labels = ((found or {}).get("metadata") or {}).get("labels") or {}
        zone: str = labels.get(self._key, "")
        return zone
