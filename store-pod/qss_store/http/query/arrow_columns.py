"""Converts the bytes of rows to Arrow columns."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from qss_core.formats.headers import decode_headers
from qss_core.formats.timed_keys import STILL_VALID
from qss_core.model import StoreType
from qss_core.serdes.contract import Serde
from qss_store.reads.codec import Codec
from qss_store.reads.encode.columns import Columns, Parts

LIST_START = "list<"
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_TYPES: dict[str, pa.DataType] = {
    "bytes": pa.binary(),
    "string": pa.string(),
    "json": pa.string(),
    "uuid": pa.string(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "boolean": pa.bool_(),
}
# Kafka's numbers have a fixed size and are big-endian.
_NUMBERS: dict[str, np.dtype[Any]] = {
    "int16": np.dtype(">i2"),
    "int32": np.dtype(">i4"),
    "int64": np.dtype(">i8"),
    "float32": np.dtype(">f4"),
    "float64": np.dtype(">f8"),
}


def type_of(serde: str) -> pa.DataType:
    """The Arrow type of a serde's values; json is text."""
    if serde.startswith(LIST_START):
        return pa.list_(type_of(serde[len(LIST_START) : -1]))
    return _TYPES[serde]


def arrays_of(columns: Columns, codec: Codec) -> list[pa.Array] | None:
    """The arrays of rows in the order of the schema.

    None if a type or a value needs a step for each row: the caller then converts the rows' JSON.
    Raises MalformedBytesError for damaged headers.
    """
    keys = _array_of(columns.keys, codec.key)
    values = None if keys is None else _array_of(columns.values, codec.value)
    if values is None:
        return None
    arrays = [keys, *_times(columns, codec)]
    if columns.sequences is not None:
        arrays.append(pa.array(columns.sequences, pa.int32()))
    arrays.append(values)
    if columns.timestamps is not None:
        arrays.append(pa.array(columns.timestamps))
    if columns.headers is not None:
        arrays.append(pa.array([decode_headers(block) for block in columns.headers], HEADERS))
    return arrays


def _times(columns: Columns, codec: Codec) -> list[pa.Array]:
    if codec.type is not StoreType.VERSIONED:
        return [pa.array(times) for times in columns.times]
    valid_from, valid_to = columns.times
    return [pa.array(valid_from), pa.array(valid_to, mask=valid_to == STILL_VALID)]


def _array_of(parts: Parts, serde: Serde) -> pa.Array | None:
    name = serde.name
    if name == "bytes":
        return parts.array()
    if name == "string":
        texts = parts.array().view(pa.string())
        try:
            texts.validate(full=True)
        except pa.ArrowInvalid:
            return None  # Not UTF-8: Java's replacement differs from Arrow's.
        return texts
    if name == "json":
        return pa.array([serde.json_bytes(one).strip() for one in parts.listed()], pa.string())
    if name in _NUMBERS:
        numbers = parts.numbers(_NUMBERS[name])
        return None if numbers is None else _number_array(numbers)
    return None


def _number_array(numbers: npt.NDArray[Any]) -> pa.Array:
    native = numbers.astype(numbers.dtype.newbyteorder("="))
    if native.dtype.kind == "f":
        native[np.isnan(native)] = np.nan  # All NaNs become the same bits.
    return pa.array(native)
