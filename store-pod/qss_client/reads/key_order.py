"""Merges rows of several partitions in the order of their keys. Pure."""

import heapq
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from qss_client.reads.responses import Row
from qss_core.serdes.registry import Serde


def merge_by_key(parts: Iterable[Iterable[Row]], serde: Serde, *, reverse: bool) -> Iterator[Row]:
    """Rows by serialized key; each part is in this order already. `reverse`: descending."""
    return heapq.merge(*parts, key=lambda row: _stored(row.key, serde), reverse=reverse)


def _stored(key: Any, serde: Serde) -> bytes:
    if isinstance(key, msgspec.Raw):
        if serde.name == "json":
            return bytes(key)
        key = msgspec.json.decode(key)
    return serde.encode(serde.from_json(key))
