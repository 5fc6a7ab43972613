"""Rows and reads of Window and Session stores: which columns and options they have."""

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from qss_core.errors import MalformedRequestError, RangeReversedError
from qss_core.model import StoreDefinition, StoreType
from qss_spark.options import Access
from qss_spark.rows import Columns, RecordBatchEncoder
from qss_spark.source.columns import schema_of
from qss_spark.source.reader import StoreReader
from qss_testing.pods.stores import make_definition

HOUR = 3_600_000
WINDOW = make_definition(type=StoreType.WINDOW, value_serde="int64")
SESSION = make_definition(type=StoreType.SESSION, value_serde="int64")


def encoded(definition: StoreDefinition, **columns: Any) -> pa.RecordBatch:
    rows = pa.RecordBatch.from_pydict({"key": ["a"], "value": pa.array([1], pa.int64()), **columns})
    return RecordBatchEncoder(definition, Columns()).encode(rows)


def reader(definition: StoreDefinition, **options: str) -> StoreReader:
    schema = schema_of(definition)
    return StoreReader(options, ("http://pod",), definition, schema, Access())


def test_times_are_milliseconds_or_timestamps() -> None:
    moment = datetime(2013, 1, 1, 10, tzinfo=UTC)
    stamp = pa.array([moment], pa.timestamp("us", "UTC"))
    assert encoded(WINDOW, window_start=[5]).column("window_start").to_pylist() == [5]
    found = encoded(WINDOW, window_start=stamp).column("window_start").to_pylist()
    assert found == [1_357_034_400_000]
    session = encoded(SESSION, session_start=[5], session_end=stamp)
    assert session.schema.names[-2:] == ["session_start", "session_end"]


def test_a_window_end_is_only_checked() -> None:
    names = encoded(WINDOW, window_start=[5], window_end=[5 + HOUR]).schema.names
    assert names == ["partition", "key", "value", "window_start"]


@pytest.mark.parametrize(
    ("definition", "columns", "said"),
    [
        (WINDOW, {}, "window_start.* missing"),
        (WINDOW, {"window_start": pa.array([None], pa.int64())}, "1 rows have no window_start"),
        (WINDOW, {"window_start": [0], "window_end": [60_000]}, "are 1 h long"),
        (
            WINDOW,
            {"window_start": ["soon"]},
            r'column "window_start" has type string .*cast\("timestamp"\)',
        ),
        (SESSION, {"session_start": [0]}, "session_end.* missing"),
        (SESSION, {"session_end": [0]}, "session_start.* missing"),
    ],
)
def test_rows_without_right_times_are_refused(
    definition: StoreDefinition, columns: dict[str, Any], said: str
) -> None:
    with pytest.raises(MalformedRequestError, match=said):
        encoded(definition, **columns)


def test_what_is_read_has_times_beside_the_key() -> None:
    assert schema_of(WINDOW).names == ["key", "window_start", "window_end", "value", "timestamp"]
    assert schema_of(SESSION).names == ["key", "session_start", "session_end", "value"]


@pytest.mark.parametrize(
    ("definition", "options", "said"),
    [
        (WINDOW, {"prefix": "a"}, "option 'prefix' chooses no rows of a Window store"),
        (WINDOW, {"endFrom": "1"}, "option 'endFrom' chooses no rows of a Window store"),
        (SESSION, {"from": "1"}, "option 'from' chooses no rows of a Session store"),
        (make_definition(), {"keyfrom": "1"}, "option 'keyFrom' chooses no rows of a KeyValue"),
        (WINDOW, {"key": "a", "keyto": "b"}, "give one of key, keys, prefix, or keyFrom and keyTo"),
        (WINDOW, {"from": "yesterday"}, "from.*yesterday"),
    ],
)
def test_options_that_choose_nothing_are_refused(
    definition: StoreDefinition, options: dict[str, str], said: str
) -> None:
    with pytest.raises(MalformedRequestError, match=said):
        reader(definition, **options)


def test_keys_upside_down_are_refused_before_any_task() -> None:
    with pytest.raises(RangeReversedError, match="keyFrom 'b' lies above keyTo 'a'"):
        reader(SESSION, keyFrom="b", keyTo="a")


def test_a_key_is_read_from_its_own_partition() -> None:
    assert len(reader(WINDOW, key="a", to="5").partitions()) == 1
    assert len(reader(WINDOW, keyFrom="a").partitions()) == WINDOW.partitions


def test_a_store_of_a_users_own_type_is_written_and_read_as_a_key_value_store() -> None:
    own = make_definition(type=StoreType.CUSTOM, custom_name="ByMember", value_serde="int64")
    assert schema_of(own).names == ["key", "value", "timestamp"]
    assert encoded(own).schema.names == ["partition", "key", "value"]
    assert reader(own, prefix="a")
    with pytest.raises(MalformedRequestError, match="option 'keyFrom' chooses no rows"):
        reader(own, keyfrom="1")


def spark_window(start: int, end: int) -> pa.Array:
    kind = pa.timestamp("us", "UTC")
    fields = [pa.array([time * 1000], pa.int64()).cast(kind) for time in (start, end)]
    return pa.StructArray.from_arrays(fields, names=["start", "end"])


def test_a_window_of_spark_is_taken() -> None:
    rows = encoded(WINDOW, window=spark_window(HOUR, 2 * HOUR))
    assert rows.schema.names == ["partition", "key", "value", "window_start"]
    assert rows.column("window_start").to_pylist() == [HOUR]
    with pytest.raises(MalformedRequestError, match="are 1 h long"):
        encoded(WINDOW, window=spark_window(HOUR, 3 * HOUR))
    with pytest.raises(MalformedRequestError, match='column "window" has type bigint'):
        encoded(WINDOW, window=[5])


def test_a_session_window_of_spark_is_explained() -> None:
    session = make_definition(type=StoreType.SESSION, session_gap_ms=60_000, value_serde="int64")
    with pytest.raises(MalformedRequestError, match=r'"session_window.end" less the gap \(1 min\)'):
        encoded(session, session_window=spark_window(0, HOUR))


def test_windows_that_start_between_two_windows_of_the_store_are_counted() -> None:
    encoder = RecordBatchEncoder(WINDOW, Columns())
    rows = {"key": ["a", "b", "c"], "value": pa.array([1, 2, 3], pa.int64())}
    encoder.encode(pa.RecordBatch.from_pydict({**rows, "window_start": [0, HOUR + 1, -HOUR // 2]}))
    assert encoder.unaligned == 2


def test_rows_of_a_versioned_store_need_a_time_or_the_batchs_on_purpose() -> None:
    versioned = make_definition(type=StoreType.VERSIONED, format="Plain", value_serde="int64")
    with pytest.raises(MalformedRequestError, match=r'column timestamp .*timestamp="batch"'):
        encoded(versioned)
    assert "timestamp" in encoded(versioned, timestamp=[5]).schema.names

    of_batch = RecordBatchEncoder(versioned, Columns(timestamp="batch"))
    for beside in ({}, {"timestamp": [5]}):
        rows = {"key": ["a"], "value": pa.array([1], pa.int64()), **beside}
        made = of_batch.encode(pa.RecordBatch.from_pydict(rows))
        assert "timestamp" not in made.schema.names
    with pytest.raises(MalformedRequestError, match='"column" or "batch", not \'updated\''):
        Columns.parse(None, None, "updated")
