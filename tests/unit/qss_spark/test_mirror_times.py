"""The rows of Window and Session stores that the state of a query becomes."""

import struct
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from qss_client.chunks.chunk import decode_chunk
from qss_client.chunks.chunk_schema import layout_of
from qss_core.errors import MalformedRequestError
from qss_core.model import StoreType
from qss_spark.mirroring.rows.computed_values import ComputedValues
from qss_spark.mirroring.rows.store_rows import StoreRows
from qss_testing.pods.stores import make_definition

TIME = pa.timestamp("us", "UTC")
SPAN = pa.struct([("start", TIME), ("end", TIME)])
VALUE = pa.struct([("count", pa.int64())])
WINDOW_KEY = pa.struct([("window", SPAN), ("k", pa.string())])
SESSION_KEY = pa.struct([("k", pa.string()), ("sessionStartTime", TIME)])
SESSION_VALUE = pa.struct([("session_window", SPAN), ("count", pa.int64())])
GAP_MS, SIZE_MS = 5_000, 30_000

Row = tuple[Any, Any]


def at(second: float) -> datetime:
    return datetime.fromtimestamp(second, UTC)


def window(start: float, key: str | None = "a", *, size: float = 30) -> dict[str, Any]:
    return {"window": {"start": at(start), "end": at(start + size)}, "k": key}


def session(key: str, first: float, last: float, count: int = 1) -> Row:
    """A session with its first and its last event, as Spark keeps it."""
    span = {"start": at(first), "end": at(last) + timedelta(milliseconds=GAP_MS)}
    return {"k": key, "sessionStartTime": at(first)}, {"session_window": span, "count": count}


def table(key: pa.StructType, value: pa.StructType, rows: Sequence[Row]) -> pa.Table:
    keys, values = ([row[place] for row in rows] for place in (0, 1))
    return pa.table({"key": pa.array(keys, key), "value": pa.array(values, value)})


def stored(
    made: StoreRows,
    definition: Any,
    changed: pa.Table,
    deleted: pa.StructArray,
    before: pa.Table | None = None,
) -> dict[tuple[Any, ...], Any]:
    """The rows as a store gets them, by key and times in seconds; None is a deleted row."""
    layout = layout_of(definition)
    found: dict[tuple[Any, ...], Any] = {}
    for group in made.groups(changed, deleted, changed.slice(0, 0) if before is None else before):
        for one in group:
            (decoded,) = decode_chunk(bytes(one.data), definition.partitions, layout)
            for row in (row for batch in decoded.batches for row in batch.to_pylist()):
                times = (row[name] // 1000 for name in layout.times)
                found[(row["key"], *times)] = row["value"]
    return found


def windows(
    changed: Sequence[Row],
    deleted: Sequence[Any] = (),
    key: pa.StructType = WINDOW_KEY,
    *,
    keep_deleted: bool = False,
    **members: Any,
) -> dict[tuple[Any, ...], Any]:
    given = {"type": StoreType.WINDOW, "window_size_ms": SIZE_MS, **members}
    definition = make_definition(**given)
    made = StoreRows(definition, key, VALUE, keep_deleted=keep_deleted)
    return stored(made, definition, table(key, VALUE, changed), pa.array(deleted, key))


def sessions(
    changed: Sequence[Row],
    before: Sequence[Row] = (),
    *,
    keep_deleted: bool = False,
    **members: Any,
) -> dict[tuple[Any, ...], Any]:
    given = {"type": StoreType.SESSION, "session_gap_ms": GAP_MS, **members}
    definition = make_definition(**given)
    made = StoreRows(definition, SESSION_KEY, SESSION_VALUE, keep_deleted=keep_deleted)
    new, old = (table(SESSION_KEY, SESSION_VALUE, rows) for rows in (changed, before))
    return stored(made, definition, new, pa.array([], SESSION_KEY), old)


def test_a_window_is_a_row_at_its_start_and_leaves_with_the_state() -> None:
    changed = [(window(60), {"count": 1}), (window(90), {"count": 2})]
    assert windows(changed, [window(30)]) == {
        (b"a", 60): b'{"count":1}',
        (b"a", 90): b'{"count":2}',
        (b"a", 30): None,
    }
    assert (b"a", 30) not in windows(changed, [window(30)], keep_deleted=True)


def test_the_key_of_a_window_has_the_other_columns() -> None:
    key = pa.struct([("window", SPAN), ("k", pa.string()), ("n", pa.int64())])
    given = {**window(60), "n": 7}
    assert windows([(given, {"count": 1})], key=key, key_serde="json", value_serde="int64") == {
        (b'{"k":"a","n":7}', 60): (1).to_bytes(8, "big")
    }
    plain = pa.struct([("n", pa.int64()), ("window", SPAN)])
    assert windows([], [{**window(60), "n": 7}], key=plain, key_serde="int64") == {
        ((7).to_bytes(8, "big"), 60): None
    }


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (window(60, size=10), "the state are 10 s long, and the windows of store words 30 s"),
        (window(60.0005), "start 1970-01-01T00:01:00.000500Z: times of a store are whole"),
        (window(-30), "the start 1969-12-31T23:59:30Z"),
    ],
)
def test_windows_that_the_store_cannot_have_are_refused(row: Any, said: str) -> None:
    with pytest.raises(MalformedRequestError, match=said):
        windows([(row, {"count": 1})])
    with pytest.raises(MalformedRequestError, match=said):
        windows([], [row])
    made = StoreRows(
        make_definition(type=StoreType.WINDOW, window_size_ms=SIZE_MS), WINDOW_KEY, VALUE
    )
    with pytest.raises(MalformedRequestError, match=said):
        made.check(table(WINDOW_KEY, VALUE, [(row, {"count": 1})]))


@pytest.mark.parametrize(
    ("key", "members", "said"),
    [
        (pa.struct([("window", SPAN)]), {}, "have the column window alone"),
        (pa.struct([("window", TIME), ("k", pa.string())]), {}, "no column window with a start"),
        (WINDOW_KEY, {"retain_duplicates": True}, "retainDuplicates: false"),
    ],
)
def test_a_window_store_that_cannot_take_the_rows_is_refused(
    key: pa.StructType, members: dict[str, Any], said: str
) -> None:
    with pytest.raises(MalformedRequestError, match=said):
        windows([], key=key, **members)


def test_a_session_ends_with_its_last_event() -> None:
    found = sessions([session("a", 60, 72)])
    assert list(found) == [(b"a", 60, 72)]
    assert b'"end":"1970-01-01T00:01:17Z"' in found[(b"a", 60, 72)]


def test_a_session_whose_end_or_start_moves_is_another_row() -> None:
    before = [session("a", 60, 62), session("a", 80, 80), session("b", 60, 60)]
    changed = [session("a", 60, 64), session("a", 77, 80), session("b", 60, 60, 2)]
    found = sessions(changed, before)
    assert {one for one, value in found.items() if value is None} == {
        (b"a", 60, 62),
        (b"a", 80, 80),
    }
    assert len(found) == 5
    assert b'"count":2' in found[(b"b", 60, 60)]


def test_kept_sessions_are_those_that_have_ended_and_not_those_that_have_grown() -> None:
    before = [session("a", 60, 62), session("a", 65, 65), session("a", 10, 12), session("b", 1, 1)]
    found = sessions([session("a", 60, 65)], before, keep_deleted=True)
    assert {one for one, value in found.items() if value is None} == {
        (b"a", 60, 62),
        (b"a", 65, 65),
    }


def test_sessions_that_are_shorter_than_the_gap_of_the_store_are_refused() -> None:
    with pytest.raises(MalformedRequestError, match="is 7 s long, and the sessionGap of store wo"):
        sessions([session("a", 60, 62)], session_gap_ms=8_000)
    with pytest.raises(MalformedRequestError, match="session_window has the end"):
        sessions([session("a", 60, 62.0001)])


def test_computed_values_need_no_times() -> None:
    definition = make_definition(
        type=StoreType.SESSION, session_gap_ms=GAP_MS, value_serde="float64"
    )
    computed = ComputedValues(["half=count/2"])
    made = StoreRows(definition, SESSION_KEY, SESSION_VALUE, computed=computed)
    rows = table(SESSION_KEY, SESSION_VALUE, [session("a", 60, 62, 3)])
    found = stored(made, definition, rows, pa.array([], SESSION_KEY))
    assert found == {(b"a", 60, 62): struct.pack(">d", 1.5)}
