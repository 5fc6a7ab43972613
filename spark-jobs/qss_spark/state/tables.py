"""Turns the bytes of a state store into a table of its keys and values. Pure.

RocksDB puts a version byte before each row, and a column family's id before each key. A key whose
first columns are a prefix has the prefix in a row of its own, behind its length. A list is the rows
of its elements, each behind its length; RocksDB joins lists that were appended to with a comma.
"""

import struct
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pyarrow as pa

from qss_spark.state.errors import CheckpointError
from qss_spark.state.records import Offsets
from qss_spark.state.schemas import StoreSchema
from qss_spark.state.snapshots import RawState
from qss_spark.state.types import Field, unique_names
from qss_spark.state.unsafe_rows import columns_of

_LENGTH = struct.Struct("<i")
_COMMA = 0x2C
_FAMILY_BYTES = 2


class Shape(StrEnum):
    """The form of a store's values."""

    ROW = "row"
    LIST = "list"


@dataclass(frozen=True, slots=True)
class Layout:
    """How the bytes of a store are kept."""

    schema: StoreSchema
    is_rocksdb: bool
    prefix_columns: int
    family: int | None = None
    shape: Shape = Shape.ROW


def table_of(state: RawState, layout: Layout) -> pa.Table:
    """A table with the columns `key` and `value`, which are structs; repeated names are numbered.

    The value of a list is an array of structs. Raises CheckpointError.
    """
    chosen = list(_of_family(state, layout.family).items())
    data = np.frombuffer(b"".join(part for pair in chosen for part in pair), dtype=np.uint8)
    sizes = np.array([(len(key), len(value)) for key, value in chosen], dtype=np.int64)
    bounds = np.concatenate([[0], np.cumsum(sizes.ravel())]).astype(np.int64)
    keys, values = bounds[:-1:2], bounds[1::2]
    row_at = 1 if layout.is_rocksdb else 0
    schema = layout.schema
    if layout.prefix_columns and layout.is_rocksdb:
        key = _prefixed(data, keys, schema.key, layout.prefix_columns)
    else:
        key = columns_of(data, keys + row_at, schema.key)
    if layout.shape is Shape.LIST:
        value: pa.Array = _lists(data, values, [len(one) for _, one in chosen], schema.value)
    else:
        value = _struct(columns_of(data, values + row_at, schema.value), schema.value)
    return pa.table({"key": _struct(key, schema.key), "value": value})


def _of_family(state: RawState, family: int | None) -> RawState:
    if family is None:
        return state
    mark = family.to_bytes(_FAMILY_BYTES, "little")
    return {
        key[_FAMILY_BYTES:]: value for key, value in state.items() if key[:_FAMILY_BYTES] == mark
    }


def _prefixed(
    data: "np.ndarray[tuple[int], np.dtype[np.uint8]]",
    keys: Offsets,
    fields: tuple[Field, ...],
    prefix: int,
) -> list[pa.Array]:
    if len(keys) and int(keys.max()) + _LENGTH.size > len(data):
        raise CheckpointError("a key of the state is damaged")
    lengths = (
        np.ascontiguousarray(data[keys[:, None] + np.arange(_LENGTH.size)]).view("<i4").ravel()
    )
    first = keys + _LENGTH.size + 1
    rest = keys + _LENGTH.size + lengths + 1
    return [*columns_of(data, first, fields[:prefix]), *columns_of(data, rest, fields[prefix:])]


def _struct(columns: list[pa.Array], fields: tuple[Field, ...]) -> pa.StructArray:
    return pa.StructArray.from_arrays(columns, names=unique_names(fields))


def _lists(
    data: "np.ndarray[tuple[int], np.dtype[np.uint8]]",
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
    rows = _struct(columns_of(data, np.array(places, dtype=np.int64), fields), fields)
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), rows)
