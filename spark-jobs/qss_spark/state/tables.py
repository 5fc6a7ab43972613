"""Turns the bytes of a state store into a table of its keys and values. Pure.

RocksDB puts a version byte before each row, and a column family's id before each key. A key whose
first columns are a prefix has the prefix in a row of its own, behind its length. A time behind the
row of a key is a long whose bytes sort as its numbers do. A list is the rows of its elements, each
behind its length; RocksDB joins lists that were appended to with a comma.
"""

import struct
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pyarrow as pa

from qss_spark.state.errors import CheckpointError
from qss_spark.state.records import FAMILY_BYTES, Bytes, Offsets
from qss_spark.state.schemas import TIME_BEHIND, StoreSchema
from qss_spark.state.snapshots import RawState
from qss_spark.state.types import Field, unique_names
from qss_spark.state.unsafe_rows import columns_of

_LENGTH = struct.Struct("<i")
_COMMA = 0x2C
_TIME_BYTES = 8
_DAMAGED_KEY = "a key of the state is damaged"


class Shape(StrEnum):
    """The form of a store's values."""

    ROW = "row"
    LIST = "list"


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of the bytes of a store."""

    schema: StoreSchema
    is_rocksdb: bool
    prefix_columns: int
    family: int | None = None
    shape: Shape = Shape.ROW

    @property
    def row_at(self) -> int:
        """The place at which a row begins: RocksDB's values begin with a version."""
        return 1 if self.is_rocksdb else 0


def table_of(state: RawState, layout: Layout) -> pa.Table:
    """A table with the columns `key` and `value`, which are structs; repeated names are numbered.

    The keys have no family any more. The value of a list is an array of structs. Raises
    CheckpointError.
    """
    values, fields = list(state.values()), layout.schema.value
    data, starts = _joined(values)
    if layout.shape is Shape.LIST:
        value: pa.Array = _lists(data, starts, [len(one) for one in values], fields)
    else:
        value = _struct(columns_of(data, starts + layout.row_at, fields), fields, len(values))
    return pa.table({"key": keys_of(state, layout), "value": value})


def keys_of(keys: Collection[bytes], layout: Layout) -> pa.StructArray:
    """The columns of keys without their family."""
    data, starts = _joined(keys)
    fields, prefix = layout.schema.key, layout.prefix_columns
    if prefix and layout.is_rocksdb:
        return _struct(_prefixed(data, starts, fields, prefix), fields, len(keys))
    if layout.schema.encoder == TIME_BEHIND:
        sizes = np.fromiter(map(len, keys), dtype=np.int64, count=len(keys))
        rows = columns_of(data, starts + layout.row_at, fields[:-1])
        return _struct([*rows, _times(data, starts, sizes)], fields, len(keys))
    return _struct(columns_of(data, starts + layout.row_at, fields), fields, len(keys))


def of_family(state: RawState, family: int | None) -> RawState:
    """The keys of one column family, without its id; all keys where a store has no families."""
    if family is None:
        return state
    mark = family.to_bytes(FAMILY_BYTES, "little")
    return {key[FAMILY_BYTES:]: value for key, value in state.items() if key[:FAMILY_BYTES] == mark}


def _joined(parts: Collection[bytes]) -> tuple[Bytes, Offsets]:
    """Bytes one after the other, and where each begins."""
    sizes = np.fromiter((len(one) for one in parts), dtype=np.int64, count=len(parts))
    ends = np.cumsum(sizes)
    return np.frombuffer(b"".join(parts), dtype=np.uint8), ends - sizes


def _prefixed(
    data: Bytes,
    keys: Offsets,
    fields: tuple[Field, ...],
    prefix: int,
) -> list[pa.Array]:
    if len(keys) and int(keys.max()) + _LENGTH.size > len(data):
        raise CheckpointError(_DAMAGED_KEY)
    lengths = (
        np.ascontiguousarray(data[keys[:, None] + np.arange(_LENGTH.size)]).view("<i4").ravel()
    )
    first = keys + _LENGTH.size + 1
    rest = keys + _LENGTH.size + lengths + 1
    return [*columns_of(data, first, fields[:prefix]), *columns_of(data, rest, fields[prefix:])]


def _times(data: Bytes, keys: Offsets, sizes: Offsets) -> pa.Array:
    """The last bytes of keys: big-endian longs whose sign is flipped."""
    if np.any(sizes < _TIME_BYTES):
        raise CheckpointError(_DAMAGED_KEY)
    places = keys + sizes - _TIME_BYTES
    longs = np.ascontiguousarray(data[places[:, None] + np.arange(_TIME_BYTES)]).view(">u8")
    return pa.array((longs.ravel().astype("<u8") ^ np.uint64(1 << 63)).view("<i8"))


def _struct(columns: list[pa.Array], fields: tuple[Field, ...], count: int) -> pa.StructArray:
    """An array of `count` structs; the key of an aggregation of all rows has no columns."""
    if not fields:
        return pa.array([{}] * count, pa.struct([]))
    return pa.StructArray.from_arrays(columns, names=unique_names(fields))


def _lists(
    data: Bytes,
    values: Offsets,
    sizes: list[int],
    fields: tuple[Field, ...],
) -> pa.Array:
    raw, places, ends = data.tobytes(), [], [0]
    for start, size in zip(values.tolist(), sizes, strict=True):
        at, end = start, start + size
        while at < end:
            if raw[at] == _COMMA and at > start:  # The length of a row with its version is 1 mod 8.
                at += 1
                continue
            if at + _LENGTH.size > end:
                raise CheckpointError("a list of the state is damaged")
            (length,) = _LENGTH.unpack_from(raw, at)
            places.append(at + _LENGTH.size + 1)
            at += _LENGTH.size + length
            if length <= 0 or at > end:
                raise CheckpointError("a list of the state is damaged")
        ends.append(len(places))
    columns = columns_of(data, np.array(places, dtype=np.int64), fields)
    rows = _struct(columns, fields, len(places))
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), rows)
