"""Finds the times of rows: the start of a window, and the start and the end of a session. Pure.

State has microseconds, and stores have milliseconds. Spark's session ends a gap after its last
event, and a session of a store with its last event.
"""

from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from qss_client.chunks.chunk_schema import TIME_COLUMNS
from qss_core.errors import MalformedRequestError
from qss_core.model import StoreDefinition, StoreType
from qss_core.quantities import shown_duration
from qss_spark.mirroring.rows.json_values import json_of, python_of

_WINDOW, _SESSION_WINDOW, _SESSION_START = "window", "session_window", "sessionStartTime"
_MS_US = 1000
_INSTEAD = "copy the state into a KeyValue store"


class RowTimes(Protocol):
    """Finds the times of rows in keys and values of the state."""

    @property
    def key(self) -> pa.StructType:
        """The columns of a row's key."""

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of times, as chunks have them."""

    def keys_of(self, keys: pa.StructArray) -> pa.StructArray:
        """The columns of the rows' keys."""

    def times_of(self, keys: pa.StructArray, values: pa.StructArray | None) -> list[pa.Array]:
        """The times, in milliseconds. Raises MalformedRequestError for times that do not fit.

        The values are None for rows that are deleted.
        """


def row_times(definition: StoreDefinition, key: pa.StructType, value: pa.DataType) -> RowTimes:
    """Finds the times of a store's rows. Raises MalformedRequestError where state has none."""
    match definition.type:
        case StoreType.KEY_VALUE:
            return _NoTimes(key)
        case StoreType.WINDOW:
            return _WindowTimes(definition, key)
        case StoreType.SESSION:
            return _SessionTimes(definition, key, value)
    raise MalformedRequestError(
        f"store {definition.name} is a {definition.type} store: state is copied into KeyValue, "
        "Window and Session stores"
    )


class _NoTimes:
    """The rows of a KeyValue store have their key alone."""

    names: tuple[str, ...] = ()

    def __init__(self, key: pa.StructType) -> None:
        self.key = key

    def keys_of(self, keys: pa.StructArray) -> pa.StructArray:
        return keys

    def times_of(
        self,
        keys: pa.StructArray,  # noqa: ARG002 such rows have no times.
        values: pa.StructArray | None,  # noqa: ARG002
    ) -> list[pa.Array]:
        return []


class _WindowTimes:
    """The column `window` of a key is the time of its row."""

    names = TIME_COLUMNS[StoreType.WINDOW]

    def __init__(self, definition: StoreDefinition, key: pa.StructType) -> None:
        if not _is_span(key, _WINDOW):
            raise MalformedRequestError(
                f"store {definition.name} is a Window store, and the keys of this state have no "
                f"column {_WINDOW} with a start and an end, but {_names_in(key)}: {_INSTEAD}"
            )
        if definition.retain_duplicates:
            raise MalformedRequestError(
                f"store {definition.name} retains duplicates, and would keep each state of a "
                "window: give it retainDuplicates: false"
            )
        self.key = _without(key, _WINDOW, definition)
        self._store, self._size_ms = definition.name, definition.window_size_ms or 0

    def keys_of(self, keys: pa.StructArray) -> pa.StructArray:
        return _columns_of(keys, self.key)

    def times_of(
        self,
        keys: pa.StructArray,
        values: pa.StructArray | None,  # noqa: ARG002 the key has all times.
    ) -> list[pa.Array]:
        start, end = _span_of(keys, _WINDOW)
        lengths = pc.subtract(end, start)
        unlike = lengths.filter(pc.not_equal(lengths, self._size_ms))
        if len(unlike):
            raise MalformedRequestError(
                f"the windows of the state are {shown_duration(unlike[0].as_py())} long, and "
                f"the windows of store {self._store} {shown_duration(self._size_ms)}: copy them "
                "into a store with the windowSize of the query"
            )
        return [start]


class _SessionTimes:
    """The start of a session is a column of its key, and the end is in its value."""

    names = TIME_COLUMNS[StoreType.SESSION]

    def __init__(self, definition: StoreDefinition, key: pa.StructType, value: pa.DataType) -> None:
        is_session = key.get_field_index(_SESSION_START) >= 0 and pa.types.is_struct(value)
        if not is_session or not _is_span(value, _SESSION_WINDOW):
            raise MalformedRequestError(
                f"store {definition.name} is a Session store, and this state has no session "
                f"windows: its keys have {_names_in(key)}: {_INSTEAD}"
            )
        self.key = _without(key, _SESSION_START, definition)
        self._store, self._gap_ms = definition.name, definition.session_gap_ms or 0

    def keys_of(self, keys: pa.StructArray) -> pa.StructArray:
        return _columns_of(keys, self.key)

    def times_of(
        self,
        keys: pa.StructArray,  # noqa: ARG002 the value has both times.
        values: pa.StructArray | None,
    ) -> list[pa.Array]:
        assert values is not None, "the end of a session is in its value"
        start, end = _span_of(values, _SESSION_WINDOW)
        last = pc.subtract(end, self._gap_ms)
        short = pc.subtract(end, start).filter(pc.less(last, start))
        if len(short):
            raise MalformedRequestError(
                f"a session of the state is {shown_duration(short[0].as_py())} long, and the "
                f"sessionGap of store {self._store} is {shown_duration(self._gap_ms)}: no session "
                "is shorter than its gap, so copy them into a store with the gap of the query"
            )
        return [start, last]


def _is_span(columns: pa.StructType, name: str) -> bool:
    """Whether a column is a struct of two timestamps, start and end."""
    at = columns.get_field_index(name)
    if at < 0 or not pa.types.is_struct(columns.field(at).type):
        return False
    inner = columns.field(at).type
    return {one.name for one in inner} == {"start", "end"} and all(
        pa.types.is_timestamp(one.type) for one in inner
    )


def _span_of(columns: pa.StructArray, name: str) -> tuple[pa.Array, pa.Array]:
    span = columns.field(columns.type.get_field_index(name))
    start, end = (_milliseconds(pc.struct_field(span, one), name, one) for one in ("start", "end"))
    return start, end


def _milliseconds(times: pa.Array, name: str, member: str) -> pa.Array:
    """Times of microseconds as whole milliseconds since 1970."""
    of_us = times.cast(pa.int64())
    of_ms = pc.divide(of_us, _MS_US)
    wrong = pc.or_(pc.less(of_us, 0), pc.not_equal(pc.multiply(of_ms, _MS_US), of_us))
    if times.null_count or pc.any(wrong).as_py():
        first = times.filter(pc.fill_null(wrong, True)).slice(0, 1)  # noqa: FBT003
        to_json = json_of(times.type)
        assert to_json is not None, "a time is no JSON"
        refused = to_json(*python_of(first))
        raise MalformedRequestError(
            f"the column {name} has the {member} {refused}: times of a store are whole "
            f"milliseconds since 1970. Cut the times in the query (date_trunc), or {_INSTEAD}"
        )
    return of_ms


def _without(key: pa.StructType, name: str, definition: StoreDefinition) -> pa.StructType:
    """The columns of a key but for its time."""
    left = pa.struct([one for one in key if one.name != name])
    if not left.num_fields:
        raise MalformedRequestError(
            f"the keys of this state have the column {name} alone, and the rows of store "
            f"{definition.name} need a key beside their time: {_INSTEAD}, or group by a column"
        )
    return left


def _columns_of(keys: pa.StructArray, kept: pa.StructType) -> pa.StructArray:
    columns = [keys.field(keys.type.get_field_index(one.name)) for one in kept]
    return pa.StructArray.from_arrays(columns, fields=list(kept))


def _names_in(key: pa.StructType) -> str:
    return ", ".join(one.name for one in key)
