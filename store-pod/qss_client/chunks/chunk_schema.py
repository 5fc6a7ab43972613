"""The columns of a chunk, by the type of its store; in this order:

    key            binary, never null
    value          binary, null deletes the row
    timestamp      int64, milliseconds since 1970; optional, null: the time of the batch
    headers        list<struct<key: string, value: binary>>; optional
    window_start   int64, of Window stores
    session_start  int64, of Session stores
    session_end    int64, of Session stores

The last three are milliseconds since 1970, never null or negative; a session's end is inclusive.
In a Versioned store the timestamp is the time from which the value is valid: never negative, and
below 2^63 - 1, which stands for "still valid".
"""

from dataclasses import dataclass
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc

from qss_core.errors import MalformedRequestError
from qss_core.formats.timed_keys import STILL_VALID
from qss_core.model import StoreDefinition, StoreType

WINDOW_START = "window_start"
SESSION_START = "session_start"
SESSION_END = "session_end"
TIME_COLUMNS: dict[StoreType, tuple[str, ...]] = {
    StoreType.WINDOW: (WINDOW_START,),
    StoreType.SESSION: (SESSION_START, SESSION_END),
}

_OPTIONAL = ((), ("timestamp",), ("headers",), ("timestamp", "headers"))
_FIELDS = {
    "key": pa.binary(),
    "value": pa.binary(),
    "timestamp": pa.int64(),
    "headers": pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    WINDOW_START: pa.int64(),
    SESSION_START: pa.int64(),
    SESSION_END: pa.int64(),
}
_NULLABLE = frozenset({"value", "timestamp", "headers"})
_PARTITION = b"partition"


@dataclass(frozen=True, slots=True)
class ChunkSchema:
    """The columns of a store's chunks, and which of their rows count."""

    store_type: StoreType = StoreType.KEY_VALUE
    ignores_deletes: bool = False  # A store that retains duplicates ignores deletes.

    @property
    def times(self) -> tuple[str, ...]:
        """The columns of a row's times; the last column is the row's time."""
        return TIME_COLUMNS.get(self.store_type, ())

    @property
    def is_versioned(self) -> bool:
        """Whether a row's timestamp is its time."""
        return self.store_type is StoreType.VERSIONED


KEY_VALUE = ChunkSchema()


def layout_of(definition: StoreDefinition) -> ChunkSchema:
    return ChunkSchema(definition.row_type, definition.retain_duplicates)


@cache
def _names_of(store_type: StoreType) -> frozenset[tuple[str, ...]]:
    times = TIME_COLUMNS.get(store_type, ())
    return frozenset(("key", "value", *optional, *times) for optional in _OPTIONAL)


def schema_of(partition: int, names: tuple[str, ...]) -> pa.Schema:
    assert any(names in _names_of(store_type) for store_type in StoreType), names
    fields = [pa.field(name, _FIELDS[name], nullable=name in _NULLABLE) for name in names]
    return pa.schema(fields, metadata={_PARTITION: str(partition).encode()})


def check_schema(schema: pa.Schema, layout: ChunkSchema) -> int:
    """The partition of a slice with this schema. Raises MalformedRequestError."""
    names = tuple(schema.names)
    known = names in _names_of(layout.store_type)
    if not known or any(schema.field(name).type != _FIELDS[name] for name in names):
        times = "".join(f", then {name}: int64" for name in layout.times)
        raise MalformedRequestError(
            f"a chunk for a store of type {layout.store_type} has the columns key: binary, value: "
            "binary, may have timestamp: int64 and headers: list<struct<key: string, value: "
            f"binary>>{times}; this one has {schema.to_string()}"
        )
    try:
        return int((schema.metadata or {})[_PARTITION])
    except (KeyError, ValueError) as error:
        raise MalformedRequestError(
            "the schema metadata of a slice names its partition: {'partition': '3'}"
        ) from error


def check_times(batch: pa.RecordBatch, layout: ChunkSchema) -> None:
    """Raises MalformedRequestError for times that no window, session or version can have."""
    if layout.is_versioned:
        _check_versions(batch)
    for name in layout.times:
        column = batch.column(name)
        if column.null_count:
            raise MalformedRequestError(f"a row has no {name}: every row of this store needs one")
        earliest = pc.min(column).as_py()
        if earliest is not None and earliest < 0:
            raise MalformedRequestError(
                f"a row has {name} {earliest}: times are milliseconds since 1970, from 0 on"
            )
    if SESSION_END in layout.times:
        ends_early = pc.less(batch.column(SESSION_END), batch.column(SESSION_START))
        if pc.any(ends_early).as_py():
            raise MalformedRequestError("a row's session_end is before its session_start")


def _check_versions(batch: pa.RecordBatch) -> None:
    if "timestamp" not in batch.schema.names:
        return
    bounds = pc.min_max(batch.column("timestamp"))
    for bound in (bounds["min"].as_py(), bounds["max"].as_py()):
        if bound is not None and not 0 <= bound < STILL_VALID:
            raise MalformedRequestError(
                f"a row has timestamp {bound}: a version is valid from a time in milliseconds "
                "since 1970, from 0 to 2^63 - 2"
            )


def undated_of(batch: pa.RecordBatch, layout: ChunkSchema) -> int:
    """The number of versions without a timestamp, which get the time of their batch."""
    if not layout.is_versioned:
        return 0
    if "timestamp" not in batch.schema.names:
        everything: int = batch.num_rows
        return everything
    undated: int = batch.column("timestamp").null_count
    return undated


def latest_of(batch: pa.RecordBatch | pa.Table, layout: ChunkSchema) -> int | None:
    """The largest time of the rows; None if there is none.

    A delete counts, as in Kafka, unless the store ignores deletes.
    """
    names = ("timestamp",) if layout.is_versioned else layout.times
    if not names or names[-1] not in batch.schema.names:
        return None
    times = batch.column(names[-1])
    if layout.ignores_deletes:
        times = times.filter(batch.column("value").is_valid())
    latest: int | None = pc.max(times).as_py()
    return latest
