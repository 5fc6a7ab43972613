"""Chunks of windows and sessions: their columns and times are checked."""

from typing import Any

import pyarrow as pa
import pytest

from qss_client.chunks.chunk import Slice, decode_chunk, encode_slice
from qss_client.chunks.chunk_schema import ChunkSchema, layout_of
from qss_core.errors import MalformedRequestError
from qss_core.formats.timed_keys import TIME_MAX
from qss_core.model import StoreType
from qss_core.partitioning import partition_of
from qss_testing.pods.stores import make_definition

KEY_VALUE = ChunkSchema()
WINDOW = ChunkSchema(StoreType.WINDOW)
DUPLICATES = ChunkSchema(StoreType.WINDOW, ignores_deletes=True)
SESSION = ChunkSchema(StoreType.SESSION)
VERSIONED = ChunkSchema(StoreType.VERSIONED)


def chunk(values: list[bytes | None] | None = None, **times: Any) -> bytes:
    count = len(next(iter(times.values()), [0]))
    columns: dict[str, Any] = {
        "key": pa.array([b"k"] * count, pa.binary()),
        "value": pa.array(values or [b"v"] * count, pa.binary()),
    }
    columns |= {name: pa.array(of_it, pa.int64()) for name, of_it in times.items()}
    return bytes(nullable_slice(pa.table(columns)))


def nullable_slice(rows: pa.Table) -> bytes:
    """A slice whose columns may all be null, as a writer in another language might make it."""
    schema = rows.schema.with_metadata({b"partition": b"0"})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_table(rows)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def decoded(data: bytes, layout: ChunkSchema) -> Slice:
    (one,) = decode_chunk(data, None, layout)
    return one


def test_the_layout_of_a_store_is_that_of_its_type() -> None:
    assert layout_of(make_definition()) == KEY_VALUE
    made = make_definition(type=StoreType.WINDOW, retain_duplicates=True)
    assert layout_of(made) == DUPLICATES
    assert layout_of(make_definition(type=StoreType.SESSION)) == SESSION


@pytest.mark.parametrize(
    ("layout", "data", "wanted"),
    [
        (KEY_VALUE, chunk(window_start=[1]), "type KeyValue has"),
        (WINDOW, chunk(), "then window_start: int64; this one"),
        (WINDOW, chunk(session_start=[1], session_end=[2]), "then window_start: int64; this one"),
        (WINDOW, chunk(session_end=[2]), "then window_start: int64; this one"),
        (SESSION, chunk(), "then session_start: int64, then session_end: int64; this one"),
        (SESSION, chunk(window_start=[1]), "then session_start: int64, then session_end: int64"),
        (SESSION, chunk(session_end=[2], session_start=[1]), "then session_start: int64, then"),
    ],
)
def test_a_chunk_of_another_layout_is_told_which_columns_are_wanted(
    layout: ChunkSchema, data: bytes, wanted: str
) -> None:
    with pytest.raises(MalformedRequestError) as caught:
        decode_chunk(data, None, layout)
    assert wanted in caught.value.message


def test_a_time_of_another_type_is_refused() -> None:
    columns = {"key": pa.array([b"k"], pa.binary()), "value": pa.array([b"v"], pa.binary())}
    rows = pa.table({**columns, "window_start": pa.array([1], pa.timestamp("ms"))})
    with pytest.raises(MalformedRequestError, match="then window_start: int64"):
        decode_chunk(nullable_slice(rows), None, WINDOW)


@pytest.mark.parametrize(
    ("layout", "times", "reason"),
    [
        (WINDOW, {"window_start": [1, None]}, "a row has no window_start"),
        (WINDOW, {"window_start": [1, -1]}, "a row has window_start -1: times are milliseconds"),
        (SESSION, {"session_start": [None], "session_end": [1]}, "a row has no session_start"),
        (SESSION, {"session_start": [1], "session_end": [None]}, "a row has no session_end"),
        (SESSION, {"session_start": [-5], "session_end": [1]}, "a row has session_start -5"),
        (SESSION, {"session_start": [3, 3], "session_end": [3, 2]}, "session_end is before its"),
    ],
)
def test_times_that_no_row_has_are_refused(
    layout: ChunkSchema, times: dict[str, Any], reason: str
) -> None:
    with pytest.raises(MalformedRequestError, match=reason):
        decode_chunk(chunk(**times), None, layout)


def test_a_slice_knows_its_largest_time_and_its_deletes() -> None:
    one = decoded(chunk([b"v", None, b"v"], window_start=[5, 9, 7]), WINDOW)
    assert (one.records, one.deletes, one.latest) == (3, 1, 9)
    one = decoded(chunk(session_start=[1, 8], session_end=[20, TIME_MAX]), SESSION)
    assert (one.deletes, one.latest) == (0, TIME_MAX)


def test_the_largest_time_is_that_of_all_batches_of_a_slice() -> None:
    table = pa.table(
        {
            "key": pa.array([b"k"] * 4, pa.binary()),
            "value": pa.array([None, b"v", b"v", None], pa.binary()),
            "window_start": pa.array([9, 1, 2, 3], pa.int64()),
        }
    )
    schema = table.schema.with_metadata({b"partition": b"0"})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_table(table, max_chunksize=2)
    one = decoded(sink.getvalue().to_pybytes(), WINDOW)
    assert (one.records, one.deletes, one.latest) == (4, 2, 9)


def test_a_store_of_duplicates_learns_no_time_from_what_it_ignores() -> None:
    data = chunk([b"v", None], window_start=[5, 9])
    assert decoded(data, DUPLICATES).latest == 5
    assert decoded(chunk([None], window_start=[9]), DUPLICATES).latest is None


def test_a_slice_without_rows_has_no_time() -> None:
    one = decoded(chunk(window_start=[]), WINDOW)
    assert (one.records, one.latest) == (0, None)


def test_a_row_of_a_keyvalue_store_has_no_time() -> None:
    assert decoded(chunk(), KEY_VALUE).latest is None


@pytest.mark.parametrize(
    ("times", "latest", "undated"),
    [
        ({}, None, 1),
        ({"timestamp": [7, 3]}, 7, 0),
        ({"timestamp": [None, 0]}, 0, 1),
        ({"timestamp": [None, None]}, None, 2),
        ({"timestamp": []}, None, 0),
        ({"timestamp": [2**63 - 2]}, 2**63 - 2, 0),
    ],
)
def test_a_version_has_its_timestamp_or_the_time_of_its_batch(
    times: dict[str, Any], latest: int | None, undated: int
) -> None:
    one = decoded(chunk(**times), VERSIONED)
    assert (one.latest, one.undated) == (latest, undated)
    assert decoded(chunk(**times), KEY_VALUE).undated == 0


@pytest.mark.parametrize("time", [-1, TIME_MAX])
def test_a_version_that_could_not_end_or_is_before_1970_is_refused(time: int) -> None:
    with pytest.raises(MalformedRequestError, match=f"timestamp {time}"):
        decode_chunk(chunk(timestamp=[5, time]), None, VERSIONED)
    assert decode_chunk(chunk(timestamp=[5, time]), None, KEY_VALUE)


def test_times_come_after_the_optional_columns() -> None:
    rows = pa.table(
        {
            "key": pa.array([b"k"], pa.binary()),
            "value": pa.array([b"v"], pa.binary()),
            "timestamp": pa.array([3], pa.int64()),
            "headers": pa.array(
                [[{"key": "h", "value": None}]],
                pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
            ),
            "window_start": pa.array([4], pa.int64()),
        }
    )
    assert decoded(bytes(encode_slice(0, rows).data), WINDOW).latest == 4


def test_trap_18_all_windows_of_a_key_are_in_the_partition_of_the_key() -> None:
    home = partition_of(b"k", 12)
    rows = pa.table(
        {
            "key": pa.array([b"k", b"k"], pa.binary()),
            "value": pa.array([b"v", b"v"], pa.binary()),
            "window_start": pa.array([0, 3_600_000], pa.int64()),
        }
    )
    decode_chunk(bytes(encode_slice(home, rows).data), 12, WINDOW)
    with pytest.raises(MalformedRequestError, match="belongs to another partition"):
        decode_chunk(bytes(encode_slice((home + 1) % 12, rows).data), 12, WINDOW)
