"""The JSON bytes that row writers make."""

import json
import struct

import pytest

from qss_core.errors import MalformedBytesError
from qss_core.formats.values import Format
from qss_store.reads.codec import BARE, FULL, TIMESTAMPED, Shape, codec_of, make_row_writer
from qss_testing.pods.stores import make_definition
from qss_testing.row_bytes import Record, encode_row

RECORD = Record(b'{"n": 1}', 42, (("a", b"\xff"), ("a", None)))
HEADERS = [{"key": "a", "value": "/w=="}, {"key": "a", "value": None}]


@pytest.mark.parametrize(
    ("store_format", "shape", "text"),
    [
        (Format.Plain, BARE, '{"key":"k","value":{"n": 1}}'),
        (Format.Timestamped, BARE, '{"key":"k","value":{"n": 1}}'),
        (Format.Timestamped, TIMESTAMPED, '{"key":"k","value":{"n": 1},"timestamp":42}'),
        (Format.TimestampedWithHeaders, BARE, '{"key":"k","value":{"n": 1}}'),
        (
            Format.TimestampedWithHeaders,
            TIMESTAMPED,
            '{"key":"k","value":{"n": 1},"timestamp":42}',
        ),
        (
            Format.TimestampedWithHeaders,
            FULL,
            '{"key":"k","value":{"n": 1},"timestamp":42,"headers":' + json.dumps(HEADERS) + "}",
        ),
        (
            Format.PlainWithHeaders,
            Shape(timestamp=False, headers=True),
            '{"key":"k","value":{"n": 1},"headers":' + json.dumps(HEADERS) + "}",
        ),
    ],
)
def test_a_row_has_what_the_query_asks_for_and_its_value_as_it_was_stored(
    store_format: Format, shape: Shape, text: str
) -> None:
    codec = codec_of(make_definition(format=store_format.value))
    line = make_row_writer(codec, shape)(b"k", encode_row(store_format, RECORD))
    assert json.loads(line) == json.loads(text)
    assert b'{"n": 1}' in line, "spliced, spaces and all"
    assert line.startswith(b'{"key":')


def test_no_headers_are_an_empty_list_and_an_unknown_timestamp_is_minus_one() -> None:
    codec = codec_of(make_definition(format="TimestampedWithHeaders"))
    row = encode_row(Format.TimestampedWithHeaders, Record(b"1", -1))
    assert json.loads(make_row_writer(codec, FULL)(b"k", row)) == {
        "key": "k",
        "value": 1,
        "timestamp": -1,
        "headers": [],
    }


def test_a_line_break_in_a_stored_value_does_not_break_the_line() -> None:
    codec = codec_of(make_definition(format="Plain"))
    assert b"\n" not in make_row_writer(codec, BARE)(b"a\nb", b'{\n"n": 1}')


@pytest.mark.parametrize(
    ("members", "key", "row"),
    [
        ({}, b"k", b"short"),
        ({}, b"k", struct.pack(">q", 1) + b"{"),
        ({"value_serde": "int64"}, b"k", struct.pack(">q", 1) + b"four"),
        ({"key_serde": "int64"}, b"k", struct.pack(">q", 1) + b"1"),
        ({"format": "TimestampedWithHeaders"}, b"k", b"\x01" + bytes(9)),
    ],
)
def test_bytes_of_another_type_are_told(members: dict[str, object], key: bytes, row: bytes) -> None:
    codec = codec_of(make_definition(**members))  # type: ignore[arg-type]
    with pytest.raises(MalformedBytesError):
        make_row_writer(codec, codec.shape)(key, row)
