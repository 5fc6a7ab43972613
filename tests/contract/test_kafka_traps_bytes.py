"""The traps of Kafka Streams in bytes, keys and positions, one rule for each test."""

from itertools import product

import pytest

from qss_core.errors import MalformedBytesError
from qss_core.formats.headers import encode_headers
from qss_core.formats.values import Format, convert_row, decode_value, encoder_of
from qss_core.keys import prefix_upper_bound
from qss_core.partitioning import partition_of
from qss_core.positions import (
    Position,
    decode_position,
    encode_position,
    unmet_components,
)
from qss_core.serdes.registry import serde_of
from qss_core.varint import encode_varint
from qss_testing.row_bytes import Record, decode_row, encode_row

WITH_HEADERS = [Format.TimestampedWithHeaders, Format.PlainWithHeaders]


def test_trap_1_a_size_is_zigzag() -> None:
    row = encode_row(Format.PlainWithHeaders, Record(b"v", headers=(("k", b"v"),)))
    assert row == b"\x0a" + bytes.fromhex("02026b0276") + b"v"
    assert encode_varint(5) == b"\x0a"


@pytest.mark.parametrize("row_format", WITH_HEADERS)
def test_trap_1_no_headers_are_one_byte(row_format: Format) -> None:
    without = encode_row(row_format, Record(b"v", 1))
    assert encode_headers(()) == b""
    assert without[:1] == b"\x00"
    assert decode_row(row_format, without).headers == ()


def test_trap_3_a_prefix_ends_before_its_upper_bound() -> None:
    bound = prefix_upper_bound(b"ab")
    assert bound == b"ac"
    assert b"ab" < b"ab\xff\xff\xff" < bound


@pytest.mark.parametrize("prefix", [b"\xff", b"\xff\xff"])
def test_trap_3_a_prefix_of_ff_alone_is_open_above(prefix: bytes) -> None:
    assert prefix_upper_bound(prefix) is None


def test_trap_13_a_topic_that_is_no_input_does_not_hold_a_bound_back() -> None:
    position = Position.of({"flights": {0: 7}})
    merged_with_another_stores = Position.of({"flights": {0: 7}, "orders": {0: 99, 1: 99}})
    assert not unmet_components(position, merged_with_another_stores)


def test_trap_13_an_input_that_was_not_read_yet_holds_a_bound_back() -> None:
    position = Position.of({"flights": {0: 7}, "orders": {}})
    bound = Position.of({"orders": {0: 0}})
    assert unmet_components(position, bound) == [("orders", 0, 0, None)]


@pytest.mark.parametrize("zeros", [1, 14, 175])
def test_trap_16_zeros_after_a_position_are_ignored(zeros: int) -> None:
    position = Position.of({"t": {0: 5}})
    assert decode_position(encode_position(position) + bytes(zeros)) == position


def test_trap_16_other_bytes_after_a_position_are_refused() -> None:
    with pytest.raises(MalformedBytesError):
        decode_position(encode_position(Position.of({"t": {0: 5}})) + b"\x00\x01")


def test_trap_17_a_list_of_booleans_has_lengths() -> None:
    assert serde_of("list<boolean>").encode([True]) == bytes.fromhex("01000000010000000101")


def test_trap_17_a_list_of_uuids_has_no_lengths() -> None:
    serde = serde_of("list<uuid>")
    text = "123e4567-e89b-12d3-a456-426614174000"
    stored = serde.encode(serde.from_json([text]))
    assert stored == bytes.fromhex("000000000000000001") + text.encode()


def test_trap_17_a_uuid_is_text() -> None:
    serde = serde_of("uuid")
    text = "123E4567-E89B-12D3-A456-426614174000"
    assert serde.encode(serde.from_json(text)) == text.lower().encode()


@pytest.mark.parametrize(("name", "empty"), [("string", ""), ("bytes", b"")])
def test_trap_17_a_list_that_ends_in_an_empty_item_is_read(name: str, empty: str | bytes) -> None:
    stored = bytes.fromhex("01000000030000000161ffffffff00000000")
    items = serde_of(f"list<{name}>").decode(stored)
    assert items[1:] == [None, empty]


def test_trap_20_headers_and_value_are_given_together() -> None:
    # Kafka's serializer may add a header while it writes the value; here the headers are known
    # before.
    encode = encoder_of(Format.TimestampedWithHeaders)
    assert encode(b"hello", 1000, (("schema", b"1"),)) == bytes.fromhex(
        "14020c736368656d61023100000000000003e868656c6c6f"
    )


def test_trap_24_a_bare_value_among_rows_with_headers_is_refused() -> None:
    for row_format, bare in product(WITH_HEADERS, (b"old", b"hello", b"{}")):
        with pytest.raises(MalformedBytesError):
            decode_row(row_format, bare)


def test_trap_24_a_bare_number_among_rows_with_headers_is_refused_by_its_serde() -> None:
    # Its first byte means "no headers": only the type tells headers from a value.
    serde = serde_of("int64")
    value = decode_value(Format.PlainWithHeaders, serde.encode(7))
    with pytest.raises(MalformedBytesError):
        serde.decode(value)


@pytest.mark.parametrize(
    "size_hex",
    [
        "01",  # -1: Kafka's strip helpers move back and return wrong bytes.
        "03",
        "ffffffff0f",  # The smallest 32-bit number.
        "feffffff0f",  # Beyond the row.
        "8000",  # 0 in two bytes.
        "ffffffffff01",
        "80",
    ],
)
@pytest.mark.parametrize("row_format", WITH_HEADERS)
def test_trap_25_a_malformed_size_is_refused_by_every_reader(
    row_format: Format, size_hex: str
) -> None:
    row = bytes.fromhex(size_hex) + bytes(8 if size_hex != "80" else 0)
    for read in (decode_row, decode_value):
        with pytest.raises(MalformedBytesError):
            read(row_format, row)
    for target in Format:
        with pytest.raises(MalformedBytesError):
            convert_row(row, row_format, target)


@pytest.mark.parametrize("block_hex", ["00", "01", "02026b03", "02026b027600", "0203", "0202ff00"])
@pytest.mark.parametrize("row_format", WITH_HEADERS)
def test_trap_25_a_malformed_block_is_refused_by_readers_that_only_strip(
    row_format: Format, block_hex: str
) -> None:
    block = bytes.fromhex(block_hex)
    row = encode_varint(len(block)) + block + bytes(8) + b"value"
    with pytest.raises(MalformedBytesError):
        decode_value(row_format, row)
    with pytest.raises(MalformedBytesError):
        convert_row(row, row_format, Format.Plain)


def test_trap_26_an_empty_prefix_is_everything() -> None:
    assert prefix_upper_bound(b"") is None


@pytest.mark.parametrize("row_format", list(Format))
def test_trap_26_an_empty_value_is_a_value(row_format: Format) -> None:
    assert decode_value(row_format, encode_row(row_format, Record(b""))) == b""


def test_trap_26_an_empty_key_is_a_key() -> None:
    assert partition_of(b"", 6) == 3
    assert serde_of("string").key_from_text("") == b""
