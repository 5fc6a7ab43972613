"""Windows and sessions as JSON, and their row keys from JSON."""

import json
from typing import Any

import pytest

from qss_core.errors import MalformedBytesError
from qss_core.formats.timed_keys import TIME_MAX, encode_session_key, encode_window_key
from qss_core.formats.values import Format
from qss_core.model import StoreType
from qss_core.times import Times
from qss_store.reads.codec import BARE, FULL, TIMESTAMPED, Codec, Shape, codec_of
from qss_store.reads.encode.rows_for_pods import row_key_of_line
from qss_store.reads.encode.timed_rows import make_timed_writer
from qss_store.reads.plans.times import TimedPlan, plan_sessions, plan_windows
from qss_testing.pods.stores import make_definition
from qss_testing.row_bytes import Record, encode_row

HEADERS = (("h", b"x"), ("h", None))
SHOWN = [{"key": "h", "value": "eA=="}, {"key": "h", "value": None}]


def codec(store_type: StoreType, store_format: Format, **members: Any) -> Codec:
    return codec_of(
        make_definition(
            type=store_type,
            format=store_format.value,
            retention_ms=3_600_000,
            window_size_ms=500,
            session_gap_ms=500,
            **members,
        )
    )


def written(of: Codec, shape: Shape, row_key: bytes, times: Times = Times.MILLIS) -> bytes:
    row = encode_row(of.format, Record(b'{"n": 1}', 77, HEADERS))
    return make_timed_writer(of, shape, times)(row_key, row)


def test_a_window_has_its_start_and_its_end() -> None:
    of = codec(StoreType.WINDOW, Format.Timestamped)
    line = written(of, TIMESTAMPED, encode_window_key(b"a", 1000))
    assert line == (
        b'{"key":"a","windowStart":1000,"windowEnd":1500,"value":{"n": 1},"timestamp":77}'
    )
    assert json.loads(written(of, BARE, encode_window_key(b"a", 1000))).keys() == {
        "key",
        "windowStart",
        "windowEnd",
        "value",
    }


def test_the_end_of_a_window_is_clamped() -> None:
    of = codec(StoreType.WINDOW, Format.Plain)
    line = json.loads(written(of, BARE, encode_window_key(b"a", TIME_MAX - 10)))
    assert line["windowEnd"] == TIME_MAX


def test_a_session_has_its_start_and_its_end() -> None:
    of = codec(StoreType.SESSION, Format.Plain)
    line = written(of, BARE, encode_session_key(b"a", 1000, 2000))
    assert line == b'{"key":"a","sessionStart":1000,"sessionEnd":2000,"value":{"n": 1}}'


def test_a_sequence_is_shown_where_duplicates_are_retained() -> None:
    of = codec(StoreType.WINDOW, Format.Plain, retain_duplicates=True)
    line = json.loads(written(of, BARE, encode_window_key(b"a", 1000, 7)))
    assert line["sequence"] == 7


@pytest.mark.parametrize(
    ("store_type", "store_format", "timestamp"),
    [
        (StoreType.WINDOW, Format.TimestampedWithHeaders, 77),
        (StoreType.WINDOW, Format.PlainWithHeaders, 1000),
        (StoreType.SESSION, Format.PlainWithHeaders, 2000),
    ],
)
def test_a_row_that_keeps_no_timestamp_has_the_time_of_its_key(
    store_type: StoreType, store_format: Format, timestamp: int
) -> None:
    of = codec(store_type, store_format)
    is_window = store_type is StoreType.WINDOW
    key = encode_window_key(b"a", 1000) if is_window else encode_session_key(b"a", 1000, 2000)
    line = json.loads(written(of, FULL, key))
    assert (line["timestamp"], line["headers"]) == (timestamp, SHOWN)


def test_all_times_of_a_row_are_shown_alike() -> None:
    of = codec(StoreType.WINDOW, Format.Timestamped)
    line = json.loads(written(of, TIMESTAMPED, encode_window_key(b"a", 0), Times.RFC3339))
    assert line["windowStart"] == "1970-01-01T00:00:00Z"
    assert line["windowEnd"] == "1970-01-01T00:00:00.500Z"
    assert line["timestamp"] == "1970-01-01T00:00:00.077Z"


@pytest.mark.parametrize("times", list(Times))
@pytest.mark.parametrize(
    ("serde", "key"),
    [("string", b"a\x00b"), ("int64", bytes(8)), ("bytes", b""), ("json", b'{"a":  1}')],
)
def test_a_row_leads_back_to_its_row_key(times: Times, serde: str, key: bytes) -> None:
    of = codec(StoreType.WINDOW, Format.Plain, retain_duplicates=True, key_serde=serde)
    row_key = encode_window_key(key, 1_357_016_400_001, 3)
    assert row_key_of_line(written(of, BARE, row_key, times), plan_windows({}, of), of) == row_key
    of = codec(StoreType.SESSION, Format.Plain, key_serde=serde)
    row_key = encode_session_key(key, 1000, 2001)
    assert row_key_of_line(written(of, BARE, row_key, times), plan_sessions({}, of), of) == row_key


@pytest.mark.parametrize(
    "line",
    [
        b"{}",
        b'{"key":"a"}',
        b'{"key":"a","windowStart":"soon"}',
        b'{"key":"a","windowStart":-1}',
        b'{"key":1,"windowStart":1}',
        b"[",
    ],
)
def test_a_row_that_leads_nowhere_is_no_row(line: bytes) -> None:
    of = codec(StoreType.WINDOW, Format.Plain)
    plan: TimedPlan = plan_windows({}, of)
    with pytest.raises(MalformedBytesError):
        row_key_of_line(line, plan, of)


def test_bytes_of_another_format_are_told() -> None:
    of = codec(StoreType.WINDOW, Format.Timestamped)
    with pytest.raises(MalformedBytesError):
        make_timed_writer(of, TIMESTAMPED, Times.MILLIS)(encode_window_key(b"a", 0), b"four")
    with pytest.raises(MalformedBytesError):
        make_timed_writer(of, TIMESTAMPED, Times.MILLIS)(b"short", bytes(9))
