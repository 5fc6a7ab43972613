"""Scans and batch gets as Arrow IPC streams, for pandas, Polars, DuckDB and Spark.

Columns: `key` and `value` in the types of the store's serdes (json as text). Between them are
`index_key` for an index query, in the type of its serde, or the row's times: `window_start`
and `window_end`, `session_start` and `session_end`, or `valid_from` and `valid_to`. After them are
`timestamp` and `headers`, if the query has them. Times are milliseconds since 1970. The rows of
each partition are followed by an empty batch, whose custom metadata has under `mark` the JSON of
NDJSON's mark: position, whether rows are left, cursor.
"""

from base64 import b64decode
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from qss_core.errors import MalformedRequestError
from qss_core.model import StoreType
from qss_core.queries.requests import KeyStatus, encode_mark
from qss_core.times import Times
from qss_store.http.content_types import ARROW
from qss_store.http.query.arrow_columns import HEADERS, LIST_START, arrays_of, type_of
from qss_store.reads.codec import Codec, Shape
from qss_store.reads.encode.columns import make_take_apart
from qss_store.reads.encode.json import ScanEncoder
from qss_store.reads.encode.timed_rows import make_writer
from qss_store.reads.multi_scan import Mark
from qss_store.reads.plans.dispatch import RowsPlan
from qss_store.reads.plans.indexes import IndexPlan

MARK = b"mark"
# JSON members of a row and their columns; only versions have nullable ones.
_TIMES = {
    StoreType.WINDOW: {"windowStart": "window_start", "windowEnd": "window_end"},
    StoreType.SESSION: {"sessionStart": "session_start", "sessionEnd": "session_end"},
    StoreType.VERSIONED: {"validFrom": "valid_from", "validTo": "valid_to"},
}
# The columns of a batch get beside the row.
_OF_KEYS = [
    pa.field("partition", pa.int32(), nullable=False),
    pa.field("status", pa.string(), nullable=False),
    pa.field("failure", pa.string()),
]


class ArrowEncoder(ScanEncoder):
    """Encodes one scan as one Arrow stream.

    Rows of this pod are converted straight from their stored bytes, if their types allow it. All
    other rows are converted from their JSON.
    """

    media = ARROW

    def __init__(self, codec: Codec, plan: RowsPlan) -> None:
        """Raises MalformedRequestError if the query asks for times as text."""
        if getattr(plan, "times", Times.MILLIS) is not Times.MILLIS:
            raise MalformedRequestError("times: Arrow has milliseconds; leave times out")
        columns = _columns_of(codec, plan.shape)
        if isinstance(plan, IndexPlan):
            columns.insert(1, _index_column(plan.index.serde.name))
        self._columns = [(member, change) for member, change, _ in columns]
        self._codec = codec
        self._take_apart = make_take_apart(codec, plan.shape)
        self._write = make_writer(codec, plan)
        self._schema = pa.schema([field for *_, field in columns])
        self._line = msgspec.json.Decoder(list[_line_type(codec)])  # type: ignore[misc]
        self._written: list[bytes] = []
        self._writer = pa.ipc.new_stream(pa.PythonFile(self, mode="w"), self._schema)

    # --- A file, as Arrow sees it

    closed = False

    def write(self, data: bytes) -> int:
        self._written.append(bytes(data))
        return len(data)

    def flush(self) -> None: ...

    def close(self) -> None:
        """Does nothing: Arrow closes its sink."""

    # --- A scan

    def of_rows(self, row_keys: Sequence[bytes], rows: Sequence[bytes]) -> bytes:
        """A batch of stored rows; the first batch follows the schema."""
        arrays = arrays_of(self._take_apart(row_keys, rows), self._codec)
        if arrays is None:
            return self.of_lines([*map(self._write, row_keys, rows)])
        self._writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=self._schema))
        return self._taken()

    def of_lines(self, lines: Sequence[bytes]) -> bytes:
        """A batch of rows that are JSON."""
        self._writer.write_batch(self._batch(lines))
        return self._taken()

    def of_mark(self, mark: Mark) -> bytes:
        """The empty batch with the mark of a partition."""
        encoded = encode_mark(mark.partition, mark.answer, mark.cursor)
        self._writer.write_batch(self._batch([]), custom_metadata={MARK: encoded})
        return self._taken()

    def end(self) -> bytes:
        """The end of the stream; a stream without it was cut off."""
        self._writer.close()
        return self._taken()

    def _taken(self) -> bytes:
        written, self._written = self._written, []
        return b"".join(written)

    def _batch(self, lines: Sequence[bytes]) -> pa.RecordBatch:
        rows = self._line.decode(b"[%b]" % b",".join(lines))
        arrays = [
            pa.array([change(getattr(row, member)) for row in rows], field.type)
            for (member, change), field in zip(self._columns, self._schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def encode_found(codec: Codec, answer: bytes) -> bytes:
    """Encodes the JSON answer of a batch get as a stream, one row per key in the asked order.

    `partition` and `status` describe the key. A key that is ABSENT has no value; one that FAILED
    has its `failure` as JSON. The mark at the end has the `partitions`.
    """
    document = msgspec.json.decode(answer, type=dict[str, msgspec.Raw])
    rows = msgspec.json.decode(document["results"], type=list[_line_type(codec)])  # type: ignore[misc]
    fields, arrays = [], []
    for member, change, field in _columns_of(codec, codec.shape):
        is_there = [member == "key" or row.status == KeyStatus.FOUND for row in rows]
        values = [
            change(getattr(row, member)) if there else None
            for row, there in zip(rows, is_there, strict=True)
        ]
        fields.append(field.with_nullable(member != "key"))
        arrays.append(pa.array(values, field.type))
    failures = [None if row.failure is None else bytes(row.failure).decode() for row in rows]
    arrays.append(pa.array([row.partition for row in rows], pa.int32()))
    arrays.append(pa.array([row.status for row in rows], pa.string()))
    arrays.append(pa.array(failures, pa.string()))
    schema = pa.schema([*fields, *_OF_KEYS])
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
    mark = msgspec.json.encode({"partitions": document["partitions"]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(batch)
        writer.write_batch(batch.slice(0, 0), custom_metadata={MARK: mark})
    data: bytes = sink.getvalue().to_pybytes()
    return data


_Column = tuple[str, Callable[[Any], Any], pa.Field]


def _columns_of(codec: Codec, shape: Shape) -> list[_Column]:
    """The columns in order: JSON member, conversion, field."""
    key, value = codec.key.name, codec.value.name
    columns: list[_Column] = [
        ("key", _change_of(key), pa.field("key", type_of(key), nullable=False)),
        *(
            (member, _same, pa.field(name, pa.int64(), nullable=member == "validTo"))
            for member, name in _TIMES.get(codec.type, {}).items()
        ),
    ]
    if codec.retain_duplicates:
        columns.append(("sequence", _same, pa.field("sequence", pa.int32(), nullable=False)))
    columns.append(("value", _change_of(value), pa.field("value", type_of(value))))
    if shape.timestamp:
        columns.append(("timestamp", _same, pa.field("timestamp", pa.int64())))
    if shape.headers:
        columns.append(("headers", _headers, pa.field("headers", HEADERS)))
    return columns


def _index_column(serde: str) -> _Column:
    return "indexKey", _change_of(serde), pa.field("index_key", type_of(serde), nullable=False)


def _line_type(codec: Codec) -> type[msgspec.Struct]:
    """The type of a row in JSON; values of the serde json are not decoded."""

    def kind(serde: str) -> Any:
        return msgspec.Raw if serde == "json" else Any

    return msgspec.defstruct(
        "Line",
        [
            ("key", kind(codec.key.name)),
            ("value", kind(codec.value.name), None),
            *((member, Any, None) for times in _TIMES.values() for member in times),
            *((member, Any, None) for member in ("indexKey", "sequence", "timestamp", "headers")),
            *((member, Any, None) for member in ("partition", "status")),
            ("failure", msgspec.Raw, None),
        ],
    )


def _change_of(serde: str, *, in_a_list: bool = False) -> Callable[[Any], Any]:
    """Converts a JSON value of a serde; in a list, json is decoded with the list."""
    if serde.startswith(LIST_START):
        item = _change_of(serde[len(LIST_START) : -1], in_a_list=True)
        return lambda found: None if found is None else [item(one) for one in found]
    if serde == "json" and in_a_list:
        return lambda found: None if found is None else msgspec.json.encode(found).decode()
    if serde == "json":
        return lambda found: bytes(found).decode()
    if serde == "bytes":
        return lambda found: None if found is None else b64decode(found)
    if serde in ("float32", "float64"):
        return lambda found: None if found is None else float(found)  # JSON has NaN as text.
    return _same


def _same(found: Any) -> Any:
    return found


def _headers(
    found: list[dict[str, str | None]] | None,
) -> list[tuple[str | None, bytes | None]]:
    # A pod that does not know the format yet sends no headers.
    return [
        (one["key"], None if (value := one["value"]) is None else b64decode(value))
        for one in found or ()
    ]
