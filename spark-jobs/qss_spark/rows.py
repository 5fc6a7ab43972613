"""Encodes rows of a DataFrame as slices of a store: serialized, partitioned, sorted, by Arrow.

The columns are `key`, `value`, and optionally `timestamp`, `headers`, `partition`; or those that
`keyColumns` and `valueColumns` name. A null value deletes. Rows of a Window store have
`window_start`, and may have `window_end`; rows of a Session store have `session_start` and
`session_end` (inclusive). A Spark `window` column replaces the first two. Times are Spark
timestamps or milliseconds since 1970.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from qss_client.chunks.chunk import Slice, slices_of
from qss_client.chunks.chunk_schema import SESSION_END, SESSION_START, TIME_COLUMNS, WINDOW_START
from qss_client.chunks.key_hashes import partitions_of
from qss_core.errors import MalformedRequestError, NullKeyError, StoreError
from qss_core.model import Partitioner, StoreDefinition, StoreType
from qss_core.quantities import shown_duration
from qss_core.serdes.json import parse_json
from qss_core.serdes.registry import serde_of
from qss_spark.column_types import arrow_type, cast_column, check_kind, headers_of
from qss_spark.time_columns import (
    WINDOW,
    WINDOW_END,
    count_unaligned,
    hint_of_session,
    milliseconds,
    missing_times,
    with_window,
)

_NUMBERS = {
    "int16": (pa.int16(), ">i2"),
    "int32": (pa.int32(), ">i4"),
    "int64": (pa.int64(), ">i8"),
    "float32": (pa.float32(), ">f4"),
    "float64": (pa.float64(), ">f8"),
}
_ITEM_TYPES = {"bytes": pa.binary(), "float32": pa.float32(), "float64": pa.float64()}
BESIDE_COLUMNS = (
    *("timestamp", "headers", "partition"),
    *(WINDOW_START, WINDOW_END, WINDOW, SESSION_START, SESSION_END),
)
MADE_JSON_COLUMN = "__value"  # JSON that Spark made is not checked again.
TASK_BYTES_MAX = 32 * 1024 * 1024  # The most that a task collects before it stages.


TimestampOf = Literal["column", "batch"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The columns of key and value; a single column is used unchanged, several become JSON.

    timestamp: "column", or "batch": all rows have the batch's time, and the column is ignored.
    """

    key: tuple[str, ...] = ("key",)
    value: tuple[str, ...] = ("value",)
    timestamp: TimestampOf = "column"

    def __post_init__(self) -> None:
        """Raises MalformedRequestError for a column that is named twice."""
        for name, columns in (("keyColumns", self.key), ("valueColumns", self.value)):
            if twice := [one for one in columns if columns.count(one) > 1]:
                raise MalformedRequestError(
                    f"{name} has the column {twice[0]!r} twice: name it once"
                )

        if self.timestamp not in get_args(TimestampOf):
            raise MalformedRequestError(
                f'timestamp is "column" or "batch", not {self.timestamp!r}: a column of another '
                "name is renamed to timestamp"
            )

    @property
    def taken(self) -> frozenset[str]:
        return frozenset({*self.key, *self.value})

    @property
    def is_of_batch(self) -> bool:
        """Whether all rows have the batch's time."""
        return self.timestamp == "batch"

    @classmethod
    def parse(cls, key: str | None, value: str | None, timestamp: str | None = None) -> "Columns":
        return cls(
            key=_names(key) or ("key",),
            value=_names(value) or ("value",),
            timestamp=cast("TimestampOf", timestamp or "column"),
        )


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip()) if text else ()


class RecordBatchEncoder:
    """Encodes record batches as slices of one store."""

    def __init__(self, definition: StoreDefinition, columns: Columns) -> None:
        """Uses the store's serdes and partitioner."""
        self._definition = definition
        self._columns = columns
        self.unaligned = 0  # Windows that do not start at a multiple of the store's size.

    def check(self, names: Iterable[str]) -> None:
        """Raises MalformedRequestError if columns are missing, and names them."""
        have = set(names)
        wanted = {*self._columns.key, *self._columns.value}
        if self._definition.partitioner is Partitioner.EXPLICIT:
            wanted.add("partition")
        times = TIME_COLUMNS.get(self._definition.row_type, ())
        if missing := (wanted - have) | missing_times(times, have):
            raise MalformedRequestError(
                f"store {self._definition.name} needs the columns {sorted({*wanted, *times})}; "
                f"{sorted(missing)} are missing from {sorted(have)}: rename them, or set "
                f"keyColumns and valueColumns{hint_of_session(missing, have, self._definition)}"
            )
        self._check_timestamp(have)

    def check_schema(self, schema: StructType) -> None:
        """Raises as `check`, and for a key or a value whose type its serde does not accept.

        So the driver refuses the rows before a task fails on them.
        """
        self.check(schema.names)
        for names, serde in (
            (self._columns.key, self._definition.key_serde),
            (self._columns.value, self._definition.value_serde),
        ):
            if len(names) == 1 and names != (MADE_JSON_COLUMN,):
                kind = arrow_type(schema[names[0]].dataType)
                if kind is not None:
                    check_kind(kind, serde, names[0])

    def _check_timestamp(self, have: Collection[str]) -> None:
        """Raises if versions would get the batches' times without `timestamp="batch"`."""
        if self._definition.row_type is not StoreType.VERSIONED or self._columns.is_of_batch:
            return
        if "timestamp" not in have or "timestamp" in self._columns.taken:
            raise MalformedRequestError(
                f"store {self._definition.name} is Versioned, and its rows need a column timestamp "
                "from which each value is valid; without it a batch would keep one version of a "
                'key, at the time of the batch: name the column timestamp, or set timestamp="batch"'
            )

    def slices(self, batches: Iterable[pa.RecordBatch]) -> Iterator[list[Slice]]:
        """Groups of slices; a group has about TASK_BYTES_MAX at most, one slice a partition."""
        gathered: list[pa.RecordBatch] = []
        size = 0
        for batch in batches:
            if batch.num_rows == 0:
                continue
            gathered.append(self.encode(batch))
            size += gathered[-1].nbytes
            if size >= TASK_BYTES_MAX:
                yield slices_of(gathered)
                gathered, size = [], 0
        if gathered:
            yield slices_of(gathered)

    def encode(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows as key, value[, timestamp][, headers], and their partitions."""
        self.check(batch.schema.names)
        if self._definition.row_type is StoreType.WINDOW:
            batch = with_window(batch)
        keys = self._serialized(batch, self._columns.key, self._definition.key_serde)
        if keys.null_count:
            raise NullKeyError(
                f"{keys.null_count} rows have no key: filter them out, or give them one"
            )
        values = self._serialized(batch, self._columns.value, self._definition.value_serde)
        arrays = {"partition": self._partitions(batch, keys), "key": keys, "value": values}
        taken = self._columns.taken
        takes_time = "timestamp" not in taken and not self._columns.is_of_batch
        if "timestamp" in batch.schema.names and takes_time:
            arrays["timestamp"] = milliseconds(batch.column("timestamp"), "timestamp")
        if "headers" in batch.schema.names and "headers" not in taken:
            arrays["headers"] = headers_of(batch.column("headers"))
        for name in TIME_COLUMNS.get(self._definition.row_type, ()):
            arrays[name] = self._time(batch, name)
        if self._definition.row_type is StoreType.WINDOW:
            starts = arrays[WINDOW_START]
            self.unaligned += count_unaligned(starts, self._definition.window_size_ms)
            if WINDOW_END in batch.schema.names:
                self._check_ends(starts, milliseconds(batch.column(WINDOW_END), WINDOW_END))
        return pa.RecordBatch.from_pydict(arrays)

    def _time(self, batch: pa.RecordBatch, name: str) -> pa.Array:
        times = milliseconds(batch.column(name), name)
        if times.null_count:
            raise MalformedRequestError(
                f"{times.null_count} rows have no {name}: every row of store "
                f"{self._definition.name} needs one"
            )
        return times

    def _check_ends(self, starts: pa.Array, ends: pa.Array) -> None:
        """Raises if a window's end is not its start plus the store's size: no end is stored."""
        size_ms = self._definition.window_size_ms
        differs = pc.not_equal(pc.subtract(ends, starts), size_ms)
        if pc.any(differs).as_py():  # The end may be null.
            raise MalformedRequestError(
                f"the windows of store {self._definition.name} are {shown_duration(size_ms or 0)} "
                "long, and a row's window_end says otherwise: use windows of that "
                "length, or leave window_end out"
            )

    def _partitions(self, batch: pa.RecordBatch, keys: pa.BinaryArray) -> pa.Array:
        count = self._definition.partitions
        if self._definition.partitioner is Partitioner.MURMUR2:
            return pa.array(partitions_of(keys, count))
        check_kind(batch.column("partition").type, "int32", "partition")
        partitions = cast_column(batch.column("partition"), pa.int32(), "int32", "partition")
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
            return serialize(batch.column(names[0]), serde, names[0])
        if serde != "json":
            raise MalformedRequestError(
                f"several columns {names} make a json; the store's serde is {serde}: name one"
            )
        struct = pa.StructArray.from_arrays([batch.column(name) for name in names], list(names))
        return _json(struct)


def serialize(column: pa.Array, serde: str, name: str = "value") -> pa.BinaryArray:
    """Encodes a column with a serde; nulls stay null. Raises MalformedRequestError."""
    check_kind(column.type, serde, name)
    if serde in _NUMBERS:
        kind, layout = _NUMBERS[serde]
        return _big_endian(cast_column(column, kind, serde, name), layout)
    if serde == "bytes":
        return cast_column(column, pa.binary(), serde, name)
    if serde == "string":
        return cast_column(column, pa.string(), serde, name).cast(pa.binary())
    if serde == "json":
        return _checked_json(column, name) if pa.types.is_string(column.type) else _json(column)
    return _one_by_one(column, serde, name)


def _big_endian(numbers: pa.Array, layout: str) -> pa.BinaryArray:
    filled = numbers.fill_null(0).to_numpy(zero_copy_only=False).astype(layout)
    width = filled.dtype.itemsize
    offsets = np.arange(len(filled) + 1, dtype=np.int32) * width
    valid = None if numbers.null_count == 0 else numbers.is_valid().buffers()[1]
    buffers = [valid, pa.py_buffer(offsets.tobytes()), pa.py_buffer(filled.tobytes())]
    return pa.Array.from_buffers(pa.binary(), len(filled), buffers)


def _json(column: pa.Array) -> pa.BinaryArray:
    """Arrow's maps become objects, and decimals numbers, as in Spark's `to_json`."""
    encode = msgspec.json.Encoder(decimal_format="number").encode
    values = column.to_pylist(maps_as_pydicts="strict")
    return pa.array([None if value is None else encode(value) for value in values], pa.binary())


def _checked_json(column: pa.StringArray, name: str) -> pa.BinaryArray:
    """Raises for a text that is not JSON, which no query could answer."""
    check = msgspec.json.Decoder(msgspec.Raw).decode
    for text in column.to_pylist():
        try:
            if text is not None:
                check(text)
        except (msgspec.DecodeError, RecursionError) as error:
            raise MalformedRequestError(
                f'column "{name}" has a text that is not JSON: {text[:60]!r} ({error}): a json is '
                'made with F.to_json(F.struct("a", "b")), or by naming several valueColumns'
            ) from error
    return column.cast(pa.binary())


def _one_by_one(column: pa.Array, serde: str, name: str) -> pa.BinaryArray:
    known = serde_of(serde)
    item = serde.replace("list<", "").rstrip(">")
    if item in _ITEM_TYPES:
        column = cast_column(column, _list_of(serde), serde, name)
    try:
        encoded = [
            None if value is None else known.encode(_native(value, serde))
            for value in column.to_pylist()
        ]
    except StoreError as error:
        raise MalformedRequestError(
            f'column "{name}" has a value that cannot be stored as {serde}: {error.message}'
        ) from error
    return pa.array(encoded, pa.binary())


def _list_of(serde: str) -> pa.DataType:
    if serde.startswith("list<"):
        return pa.list_(_list_of(serde[len("list<") : -1]))
    return _ITEM_TYPES[serde]


def _native(value: Any, serde: str) -> Any:
    """The value that the serde encodes; values of JSON form are converted first."""
    if value is None or serde in _ITEM_TYPES:
        return value
    if serde.startswith("list<") and isinstance(value, list):
        return [_native(item, serde[len("list<") : -1]) for item in value]
    if serde == "json":
        return parse_json(value) if isinstance(value, str) else value
    return serde_of(serde).from_json(value)
