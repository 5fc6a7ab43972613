"""Reads columns of Spark's UnsafeRows into Arrow, many rows at once. Pure.

A row has a bit for each null column, rounded up to 8 bytes, and 8 bytes for each column: the
value, or its place in the row (the upper half) and its size. An array has the number of its
elements, the bits of the nulls, and the elements in their own width; a map has the size of its
array of keys, this array, and that of the values. All numbers are little-endian, and places count
from where the row or the array begins.
"""

import struct
from collections.abc import Sequence
from decimal import Context
from decimal import Decimal as Number
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from qss_spark.state.errors import CheckpointError
from qss_spark.state.records import Bytes, Offsets
from qss_spark.state.types import (
    FIXED,
    LONG_DIGITS_MAX,
    Array,
    ColumnType,
    Decimal,
    Field,
    Map,
    Struct,
    arrow_of,
    numpy_of,
    unique_names,
    width_of,
)

_WORD = 8
_DAMAGED = "a row of the state is damaged: a value lies outside of the file"
_LONG = struct.Struct("<q")
_EXACT = Context(prec=38)


def columns_of(data: Bytes, rows: Offsets, fields: Sequence[Field]) -> list[pa.Array]:
    """The columns of rows that begin at the places `rows`. Raises CheckpointError for damage."""
    head = _null_bytes(len(fields)) + _WORD * len(fields)
    if len(rows) and (rows.min() < 0 or int(rows.max()) + head > len(data)):
        raise CheckpointError(_DAMAGED)
    return [_column(data, rows, len(fields), number, one.type) for number, one in enumerate(fields)]


def _null_bytes(columns: int) -> int:
    return (columns + 63) // 64 * _WORD


def _column(data: Bytes, rows: Offsets, columns: int, number: int, of: ColumnType) -> pa.Array:
    if of == "void":
        return pa.nulls(len(rows))
    nulls = (data[rows + (number >> 3)] >> (number & 7) & 1).astype(bool)
    places = rows + _null_bytes(columns) + _WORD * number
    if isinstance(of, str) and of in FIXED:
        return _fixed(data, places, nulls, of)
    if isinstance(of, Decimal) and of.precision <= LONG_DIGITS_MAX:
        longs = _taken(data, places, _WORD).view("<i8").ravel()
        return _decimals(longs.tolist(), nulls, of)
    words = _taken(data, places, _WORD).view("<u8").ravel()
    starts = rows + (words >> np.uint64(32)).astype(np.int64)
    sizes = np.where(nulls, 0, (words & np.uint64(0xFFFFFFFF)).astype(np.int64))
    starts = np.where(nulls, rows, starts)
    if len(rows) and int((starts + sizes).max()) > len(data):
        raise CheckpointError(_DAMAGED)
    match of:
        case "string" | "binary":
            return _texts(data, starts, sizes, nulls, arrow_of(of))
        case Struct():
            inner = columns_of(data, starts[~nulls], of.fields)
            found = pa.StructArray.from_arrays(inner, names=unique_names(of.fields))
            return found.take(pa.array(np.cumsum(~nulls) - 1, mask=nulls))
    raw = data.tobytes()
    values = [
        None if is_null else _value(raw, int(start), int(size), of)
        for start, size, is_null in zip(starts, sizes, nulls, strict=True)
    ]
    return pa.array(values, arrow_of(of))


def _taken(data: Bytes, places: Offsets, width: int) -> Bytes:
    """`width` bytes at each place, one row each."""
    return np.ascontiguousarray(data[places[:, None] + np.arange(width)])


def _fixed(data: Bytes, places: Offsets, nulls: NDArray[np.bool_], of: str) -> pa.Array:
    kind = numpy_of(of)
    values = _taken(data, places, kind.itemsize).view(kind).ravel()
    if of == "boolean":
        return pa.array(values.astype(bool), mask=nulls)
    return pa.array(values, mask=nulls).cast(FIXED[of].arrow)


def _texts(
    data: Bytes, starts: Offsets, sizes: Offsets, nulls: NDArray[np.bool_], kind: pa.DataType
) -> pa.Array:
    ends = np.cumsum(sizes)
    bounds = np.concatenate([[0], ends]).astype(np.int64)
    total = int(bounds[-1])
    inside = np.repeat(starts - bounds[:-1], sizes) + np.arange(total)
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(np.ascontiguousarray(data[inside]))]
    found = pa.Array.from_buffers(pa.large_binary(), len(starts), buffers)
    if nulls.any():
        found = pc.if_else(pa.array(~nulls), found, pa.scalar(None, pa.large_binary()))
    try:
        return found.cast(kind)
    except pa.ArrowInvalid as error:
        raise CheckpointError(f"a text of the state is damaged: {error}") from error


def _decimals(longs: Sequence[int], nulls: NDArray[np.bool_], of: Decimal) -> pa.Array:
    values = [
        None if is_null else Number(one).scaleb(-of.scale, _EXACT)
        for one, is_null in zip(longs, nulls, strict=True)
    ]
    return _array(values, arrow_of(of))


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    try:
        return pa.array(values, kind)
    except (pa.ArrowInvalid, OverflowError) as error:
        raise CheckpointError(f"a value of the state is damaged: {error}") from error


# --- Values within values, one by one


def _value(raw: bytes, start: int, size: int, of: ColumnType) -> Any:
    """The value of some bytes outside of the fixed part of its row or array."""
    if size < 0 or start < 0 or start + size > len(raw):
        raise CheckpointError(_DAMAGED)
    match of:
        case "string":
            return raw[start : start + size].decode(errors="replace")
        case "binary":
            return raw[start : start + size]
        case Decimal():
            whole = int.from_bytes(raw[start : start + size], "big", signed=True)
            return Number(whole).scaleb(-of.scale, _EXACT)
        case Struct():
            part = np.frombuffer(raw, dtype=np.uint8)
            columns = columns_of(part, np.array([start]), of.fields)
            names = unique_names(of.fields)
            return {name: one[0].as_py() for name, one in zip(names, columns, strict=True)}
        case Array():
            return _elements(raw, start, size, of.element)
        case Map():
            return _entries(raw, start, size, of)
    raise CheckpointError("a value of fixed size lies outside of its row: the row is damaged")


def _elements(raw: bytes, start: int, size: int, of: ColumnType) -> list[Any]:
    count = _long(raw, start, start + size)
    width, begin = width_of(of), start + _WORD + _null_bytes(max(0, count))
    if not 0 <= count <= size or begin + count * width > start + size:
        raise CheckpointError(_DAMAGED)
    found: list[Any] = []
    for number in range(count):
        is_null = raw[start + _WORD + (number >> 3)] >> (number & 7) & 1
        place = begin + number * width
        found.append(None if is_null else _element(raw, start, place, of))
    return found


def _element(raw: bytes, start: int, place: int, of: ColumnType) -> Any:
    if isinstance(of, str) and of in FIXED:
        one = np.frombuffer(raw, numpy_of(of), count=1, offset=place)
        kind = FIXED[of].arrow
        return bool(one[0]) if of == "boolean" else pa.array(one).cast(kind)[0].as_py()
    word = _long(raw, place, len(raw))
    if isinstance(of, Decimal) and of.precision <= LONG_DIGITS_MAX:
        return Number(word).scaleb(-of.scale, _EXACT)
    return _value(raw, start + (word >> 32), word & 0xFFFFFFFF, of)


def _entries(raw: bytes, start: int, size: int, of: Map) -> list[tuple[Any, Any]]:
    of_keys = _long(raw, start, start + size)
    begin = start + _WORD
    if not 0 <= of_keys <= size - _WORD:
        raise CheckpointError(_DAMAGED)
    keys = _elements(raw, begin, of_keys, of.key)
    values = _elements(raw, begin + of_keys, size - _WORD - of_keys, of.value)
    if len(keys) != len(values):
        raise CheckpointError(_DAMAGED)
    return list(zip(keys, values, strict=True))


def _long(raw: bytes, place: int, end: int) -> int:
    if place < 0 or place + _WORD > end or end > len(raw):
        raise CheckpointError(_DAMAGED)
    found: int = _LONG.unpack_from(raw, place)[0]
    return found
