"""Kafka's list serde (KIP-466), byte for byte.

Items of a fixed size (int16, int32, int64, float32, float64, uuid; not boolean): 00, null count
(4), the index of each null (4), size (4) including nulls, then the items that are not null. All
other items: 01, size (4), then for each item its length (4, -1: null) and bytes. Kafka's own reader
refuses a list that ends with an empty item; this one reads it.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from qss_core.serdes.contract import Serde, wrong_bytes, wrong_json
from qss_core.serdes.json import parse_json

_FIXED = b"\x00"
_VARIABLE = b"\x01"
_COUNT = struct.Struct(">i")
_NULL_LENGTH = _COUNT.pack(-1)

Items = list[bytes | None]


@dataclass(frozen=True, slots=True)
class ListSerde:
    """A list of values of one type; an item may be null (None)."""

    inner: Serde
    item_bytes: int | None = None

    @property
    def name(self) -> str:
        return f"list<{self.inner.name}>"

    def encode(self, value: Sequence[Any]) -> bytes:
        encode = self.inner.encode
        items = [None if item is None else encode(item) for item in value]
        if self.inner.item_bytes is None:
            return _encode_variable(items)
        return _encode_fixed(items)

    def decode(self, data: bytes) -> list[Any]:
        decode = self.inner.decode
        return [None if item is None else decode(item) for item in self._items(data)]

    def to_json(self, value: Sequence[Any]) -> list[Any]:
        return [None if item is None else self.inner.to_json(item) for item in value]

    def from_json(self, obj: object) -> list[Any]:
        if not isinstance(obj, list):
            raise wrong_json(f"{self.name} (an array)", obj)
        return [None if item is None else self.inner.from_json(item) for item in obj]

    def json_bytes(self, data: bytes) -> bytes:
        write = self.inner.json_bytes
        items = (b"null" if item is None else write(item) for item in self._items(data))
        return b"[" + b",".join(items) + b"]"

    def key_to_text(self, data: bytes) -> str:
        return self.json_bytes(data).decode()

    def key_from_text(self, text: str) -> bytes:
        return self.encode(self.from_json(parse_json(text)))

    def _items(self, data: bytes) -> Items:
        """The bytes of each item; both layouts are read if the type has both, as in Kafka."""
        items: Items | None = None
        if data[:1] == _VARIABLE:
            items = _decode_variable(data)
        elif data[:1] == _FIXED and self.inner.item_bytes is not None:
            items = _decode_fixed(data, self.inner.item_bytes)
        if items is None:
            raise wrong_bytes(self.name, data)
        return items


def _encode_fixed(items: Items) -> bytes:
    nulls = [index for index, item in enumerate(items) if item is None]
    head = struct.pack(f">xi{len(nulls)}ii", len(nulls), *nulls, len(items))
    return head + b"".join(item for item in items if item is not None)


def _decode_fixed(data: bytes, item_bytes: int) -> Items | None:
    """None for bytes that are not such a list."""
    null_count = _decode_count(data, 1)
    items_start = 9 + 4 * null_count
    if null_count < 0 or len(data) < items_start:
        return None
    *nulls, size = struct.unpack_from(f">{null_count}ii", data, 5)
    if len(data) - items_start != (size - null_count) * item_bytes:
        return None
    # The indexes ascend, and are inside the list.
    if any(low >= high for low, high in zip([-1, *nulls], [*nulls, size], strict=True)):
        return None
    absent = set(nulls)
    stored = (data[at : at + item_bytes] for at in range(items_start, len(data), item_bytes))
    return [None if index in absent else next(stored) for index in range(size)]


def _encode_variable(items: Items) -> bytes:
    parts = [_VARIABLE, _COUNT.pack(len(items))]
    for item in items:
        if item is None:
            parts.append(_NULL_LENGTH)
        else:
            parts += (_COUNT.pack(len(item)), item)
    return b"".join(parts)


def _decode_variable(data: bytes) -> Items | None:
    """None for bytes that are not such a list."""
    size = _decode_count(data, 1)
    offset = 5
    if not 0 <= size <= (len(data) - offset) // _COUNT.size:
        return None
    items: Items = []
    for _ in range(size):
        length = _decode_count(data, offset)
        offset += _COUNT.size
        end = offset + max(length, 0)
        if length < -1 or end > len(data):
            return None
        items.append(None if length == -1 else data[offset:end])
        offset = end
    return items if offset == len(data) else None


def _decode_count(data: bytes, offset: int) -> int:
    """A four-byte number; -2, which is never valid, if the bytes end too early."""
    if offset + _COUNT.size > len(data):
        return -2
    count: int = _COUNT.unpack_from(data, offset)[0]
    return count
