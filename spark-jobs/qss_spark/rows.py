"""Rows of a DataFrame as slices of a store: serialized, partitioned, sorted. Vectorised with Arrow.

Columns `key`, `value`, and optionally `timestamp`, `headers`, `partition`; or the columns that
`keyColumns` and `valueColumns` name. A null value deletes. Rows of a Window store have
`window_start`, and may have `window_end`; those of a Session store `session_start` and
`session_end` (inclusive). Times are Spark timestamps or milliseconds since 1970.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from qss_client.chunks import Slice, encode_slice
from qss_client.layouts import SESSION_END, SESSION_START, TIME_COLUMNS, WINDOW_START
from qss_client.vector_partitioning import partitions_of
from qss_core.errors import MalformedRequestError, NullKeyError
from qss_core.model import Partitioner, StoreDefinition, StoreType
from qss_core.serde_json import parse_json
from qss_core.serdes import serde_of

_NUMBERS = {
    "int16": (pa.int16(), ">i2"),
    "int32": (pa.int32(), ">i4"),
    "int64": (pa.int64(), ">i8"),
    "float32": (pa.float32(), ">f4"),
    "float64": (pa.float64(), ">f8"),
}
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_ITEM_TYPES = {"bytes": pa.binary(), "float32": pa.float32(), "float64": pa.float64()}
WINDOW_END = "window_end"
BESIDE_COLUMNS = (
    *("timestamp", "headers", "partition"),
    *(WINDOW_START, WINDOW_END, SESSION_START, SESSION_END),
)
MADE_JSON_COLUMN = "__value"  # JSON that Spark made: it is not checked again.
TASK_BYTES_MAX = 32 * 1024 * 1024  # What a task gathers before it stages.


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Which columns make the key and the value; one column is taken as it is, several as JSON."""

    key: tuple[str, ...] = ("key",)
    value: tuple[str, ...] = ("value",)

    def __post_init__(self) -> None:
        """Refuses a column that would be taken twice."""
        for name, columns in (("keyColumns", self.key), ("valueColumns", self.value)):
            if twice := [one for one in columns if columns.count(one) > 1]:
                raise MalformedRequestError(
                    f"{name} has the column {twice[0]!r} twice: name it once"
                )

    @classmethod
    def parse(cls, key: str | None, value: str | None) -> "Columns":
        """From comma-separated names."""
        return cls(key=_names(key) or ("key",), value=_names(value) or ("value",))


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip()) if text else ()


class RowEncoder:
    """Turns record batches into slices of one store."""

    def __init__(self, definition: StoreDefinition, columns: Columns) -> None:
        """Uses the store's serdes and partitioner."""
        self._definition = definition
        self._columns = columns

    def check(self, names: Iterable[str]) -> None:
        """Refuses columns that do not make rows, and names what is missing."""
        have = set(names)
        wanted = {*self._columns.key, *self._columns.value}
        if self._definition.partitioner is Partitioner.EXPLICIT:
            wanted.add("partition")
        wanted |= {*TIME_COLUMNS.get(self._definition.row_type, ())}
        if missing := wanted - have:
            raise MalformedRequestError(
                f"store {self._definition.name} needs the columns {sorted(wanted)}; "
                f"{sorted(missing)} are missing from {sorted(have)}: rename them, or set "
                "keyColumns and valueColumns"
            )

    def slices(self, batches: Iterable[pa.RecordBatch]) -> Iterator[list[Slice]]:
        """Groups of slices, each of at most about TASK_BYTES_MAX and one slice a partition."""
        gathered: list[pa.RecordBatch] = []
        size = 0
        for batch in batches:
            if batch.num_rows == 0:
                continue
            gathered.append(self.encode(batch))
            size += gathered[-1].nbytes
            if size >= TASK_BYTES_MAX:
                yield split(gathered)
                gathered, size = [], 0
        if gathered:
            yield split(gathered)

    def encode(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch's rows as key, value[, timestamp][, headers] and their partition."""
        self.check(batch.schema.names)
        keys = self._serialized(batch, self._columns.key, self._definition.key_serde)
        if keys.null_count:
            raise NullKeyError(
                f"{keys.null_count} rows have no key: filter them out, or give them one"
            )
        values = self._serialized(batch, self._columns.value, self._definition.value_serde)
        arrays = {"partition": self._partitions(batch, keys), "key": keys, "value": values}
        taken = {*self._columns.key, *self._columns.value}
        if "timestamp" in batch.schema.names and "timestamp" not in taken:
            arrays["timestamp"] = _milliseconds(batch.column("timestamp"))
        if "headers" in batch.schema.names and "headers" not in taken:
            arrays["headers"] = _cast(batch.column("headers"), _HEADERS, "column headers")
        for name in TIME_COLUMNS.get(self._definition.row_type, ()):
            arrays[name] = self._time(batch, name)
        if self._definition.row_type is StoreType.WINDOW and WINDOW_END in batch.schema.names:
            self._check_ends(
                arrays[WINDOW_START], _milliseconds(batch.column(WINDOW_END), WINDOW_END)
            )
        return pa.RecordBatch.from_pydict(arrays)

    def _time(self, batch: pa.RecordBatch, name: str) -> pa.Array:
        times = _milliseconds(batch.column(name), name)
        if times.null_count:
            raise MalformedRequestError(
                f"{times.null_count} rows have no {name}: every row of store "
                f"{self._definition.name} needs one"
            )
        return times

    def _check_ends(self, starts: pa.Array, ends: pa.Array) -> None:
        """A window's end is its start and the store's size: another one would be lost."""
        size_ms = self._definition.window_size_ms
        differs = pc.not_equal(pc.subtract(ends, starts), size_ms)
        if pc.any(differs).as_py():  # A row may leave it out: null.
            raise MalformedRequestError(
                f"the windows of store {self._definition.name} are {size_ms} ms long, and a row's "
                "window_end says otherwise: use windows of that length, or leave window_end out"
            )

    def _partitions(self, batch: pa.RecordBatch, keys: pa.BinaryArray) -> pa.Array:
        count = self._definition.partitions
        if self._definition.partitioner is Partitioner.MURMUR2:
            return pa.array(partitions_of(keys, count))
        partitions = _cast(batch.column("partition"), pa.int32(), "column partition")
        outside = pc.any(pc.or_(pc.less(partitions, 0), pc.greater_equal(partitions, count)))
        if partitions.null_count or outside.as_py():
            raise MalformedRequestError(f"the column partition holds numbers from 0 to {count - 1}")
        return partitions

    def _serialized(
        self, batch: pa.RecordBatch, names: tuple[str, ...], serde: str
    ) -> pa.BinaryArray:
        if names == (MADE_JSON_COLUMN,):
            return batch.column(MADE_JSON_COLUMN).cast(pa.binary())
        if len(names) == 1:
            return serialize(batch.column(names[0]), serde)
        if serde != "json":
            raise MalformedRequestError(
                f"several columns {names} make a json; the store's serde is {serde}: name one"
            )
        struct = pa.StructArray.from_arrays([batch.column(name) for name in names], list(names))
        return _json(struct)


def serialize(column: pa.Array, serde: str) -> pa.BinaryArray:
    """A column in the bytes of a serde; nulls stay null. MalformedRequestError for another type."""
    _check_kind(column.type, serde)
    if serde in _NUMBERS:
        kind, layout = _NUMBERS[serde]
        return _big_endian(_cast(column, kind, serde), layout)
    if serde == "bytes":
        return _cast(column, pa.binary(), serde)
    if serde == "string":
        return _cast(column, pa.string(), serde).cast(pa.binary())
    if serde == "json":
        return _checked_json(column) if pa.types.is_string(column.type) else _json(column)
    return _one_by_one(column, serde)


def _check_kind(kind: pa.DataType, serde: str) -> None:
    """Refuses what Arrow would make a value of, and a person would not: "5", true, 2.0 as int64."""
    is_whole = pa.types.is_integer(kind)
    fits = {
        "string": _is_text(kind),
        "bytes": _is_text(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind),
        **dict.fromkeys(("int16", "int32", "int64"), is_whole),
        **dict.fromkeys(("float32", "float64"), is_whole or pa.types.is_floating(kind)),
    }
    if not (fits.get(serde, True) or pa.types.is_null(kind)):
        raise MalformedRequestError(f"{serde}: a column of {kind} is none: cast it")


def _check_finite_stays_finite(given: pa.Array, made: pa.Array) -> None:
    """Arrow makes infinity of a double beyond float32."""
    while pa.types.is_list(made.type):
        given, made = given.flatten(), made.flatten()
    if not (pa.types.is_float64(given.type) and pa.types.is_float32(made.type)):
        return
    if pc.any(pc.and_(pc.is_finite(given), pc.is_inf(made))).as_py():
        raise MalformedRequestError("float32: a number is larger than it can hold")


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _cast(column: pa.Array, kind: pa.DataType, what: str) -> pa.Array:
    try:
        made = column.cast(kind)
    except pa.ArrowException as error:
        raise MalformedRequestError(f"{what}: a {column.type} is no {kind}: {error}") from error
    _check_finite_stays_finite(column, made)
    return made


def _big_endian(numbers: pa.Array, layout: str) -> pa.BinaryArray:
    filled = numbers.fill_null(0).to_numpy(zero_copy_only=False).astype(layout)
    width = filled.dtype.itemsize
    offsets = np.arange(len(filled) + 1, dtype=np.int32) * width
    valid = None if numbers.null_count == 0 else numbers.is_valid().buffers()[1]
    buffers = [valid, pa.py_buffer(offsets.tobytes()), pa.py_buffer(filled.tobytes())]
    return pa.Array.from_buffers(pa.binary(), len(filled), buffers)


def _json(column: pa.Array) -> pa.BinaryArray:
    """Arrow's maps become objects and decimals numbers, as Spark's `to_json` writes them."""
    encode = msgspec.json.Encoder(decimal_format="number").encode
    values = column.to_pylist(maps_as_pydicts="strict")
    return pa.array([None if value is None else encode(value) for value in values], pa.binary())


def _checked_json(column: pa.StringArray) -> pa.BinaryArray:
    """A text that is no JSON would be stored, and then no query could answer it."""
    check = msgspec.json.Decoder(msgspec.Raw).decode
    for text in column.to_pylist():
        try:
            if text is not None:
                check(text)
        except (msgspec.DecodeError, RecursionError) as error:
            raise MalformedRequestError(f"not JSON: {text[:60]!r}: {error}") from error
    return column.cast(pa.binary())


def _one_by_one(column: pa.Array, serde: str) -> pa.BinaryArray:
    known = serde_of(serde)
    item = serde.replace("list<", "").rstrip(">")
    if item in _ITEM_TYPES:
        column = _cast(column, _list_of(serde), serde)
    return pa.array(
        [
            None if value is None else known.encode(_native(value, serde))
            for value in column.to_pylist()
        ],
        pa.binary(),
    )


def _list_of(serde: str) -> pa.DataType:
    if serde.startswith("list<"):
        return pa.list_(_list_of(serde[len("list<") : -1]))
    return _ITEM_TYPES[serde]


def _native(value: Any, serde: str) -> Any:
    """What the serde encodes: Arrow gives bytes and floats as they are, JSON would not."""
    if value is None or serde in _ITEM_TYPES:
        return value
    if serde.startswith("list<") and isinstance(value, list):
        return [_native(item, serde[len("list<") : -1]) for item in value]
    if serde == "json":
        return parse_json(value) if isinstance(value, str) else value
    return serde_of(serde).from_json(value)


def _milliseconds(column: pa.Array, name: str = "timestamp") -> pa.Array:
    if pa.types.is_timestamp(column.type):
        column = pc.cast(column, pa.timestamp("ms", column.type.tz), safe=False)
    return _cast(column, pa.int64(), f"column {name}")


def split(batches: list[pa.RecordBatch]) -> list[Slice]:
    """One slice a partition, sorted by key; equal keys keep their order, so that the last wins."""
    rows = pa.Table.from_batches(batches)
    if not rows.num_rows:
        return []
    order = pc.sort_indices(rows, [("partition", "ascending"), ("key", "ascending")])
    (sorted_rows,) = rows.take(order).combine_chunks().to_batches()
    partitions = sorted_rows.column("partition").to_numpy()
    bounds = [0, *(np.flatnonzero(np.diff(partitions)) + 1).tolist(), len(partitions)]
    columns = sorted_rows.drop_columns(["partition"])
    return [
        encode_slice(int(partitions[start]), columns.slice(start, end - start))
        for start, end in pairwise(bounds)
    ]
