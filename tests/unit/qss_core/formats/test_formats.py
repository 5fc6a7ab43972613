"""Rows in every format: truncation, conversions, limits."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qss_core.errors import MalformedBytesError, MalformedRequestError
from qss_core.formats.headers import Headers
from qss_core.formats.values import (
    Format,
    convert_row,
    converter_of,
    decode_value,
    encoder_of,
    lost_between,
)
from qss_testing.row_bytes import Record, decode_row, encode_row

WITH_TIMESTAMP = {Format.Timestamped, Format.TimestampedWithHeaders}
WITH_HEADERS = {Format.TimestampedWithHeaders, Format.PlainWithHeaders}
FORMATS = list(Format)
PAIRS = list(product(FORMATS, FORMATS))

HEADERS: Headers = (("trace-id", b"abc123"), ("n", None), ("e", b""))
FULL = Record(b"hello", 1_700_000_000_000, HEADERS)
KEYS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
RECORDS = st.builds(
    Record,
    st.binary(max_size=30),
    st.integers(-(2**63), 2**63 - 1),
    st.lists(st.tuples(KEYS, st.none() | st.binary(max_size=70)), max_size=3).map(tuple),
)


def kept(record: Record, row_format: Format) -> Record:
    """The members of a record that a format keeps."""
    return Record(
        record.value,
        record.timestamp if row_format in WITH_TIMESTAMP else None,
        record.headers if row_format in WITH_HEADERS else (),
    )


@pytest.mark.parametrize("row_format", FORMATS)
@given(record=RECORDS)
def test_a_format_gives_back_what_it_keeps(row_format: Format, record: Record) -> None:
    row = encode_row(row_format, record)
    assert record.timestamp is not None
    assert encoder_of(row_format)(record.value, record.timestamp, record.headers) == row
    assert decode_row(row_format, row) == kept(record, row_format)
    assert decode_value(row_format, row) == record.value
    assert decode_row(row_format, row).timestamp == kept(record, row_format).timestamp


@pytest.mark.parametrize(("source", "target"), PAIRS)
@given(record=RECORDS)
def test_a_conversion_is_the_same_as_decoding_and_encoding(
    source: Format, target: Format, record: Record
) -> None:
    row = encode_row(source, record)
    wanted = encode_row(target, kept(record, source))
    assert convert_row(row, source, target) == converter_of(source, target)(row) == wanted


@pytest.mark.parametrize(
    ("source", "target", "row", "converted"),
    [
        # The conversions of KIP-1300, which no release of Kafka has yet.
        (Format.Plain, Format.PlainWithHeaders, "68656c6c6f", "0068656c6c6f"),
        (Format.Timestamped, Format.PlainWithHeaders, "00000000000003e868656c", "0068656c"),
        (
            Format.TimestampedWithHeaders,
            Format.PlainWithHeaders,
            "0a02026b027600000000000003e868656c6c6f",
            "0a02026b027668656c6c6f",
        ),
        (
            Format.PlainWithHeaders,
            Format.TimestampedWithHeaders,
            "0a02026b027668656c6c6f",
            "0a02026b0276ffffffffffffffff68656c6c6f",
        ),
        (Format.PlainWithHeaders, Format.Timestamped, "0a02026b027668", "ffffffffffffffff68"),
        (Format.Timestamped, Format.Plain, "00000000000003e868", "68"),
    ],
)
def test_a_conversion_writes_minus_one_and_no_headers_for_what_is_missing(
    source: Format, target: Format, row: str, converted: str
) -> None:
    assert convert_row(bytes.fromhex(row), source, target) == bytes.fromhex(converted)


@pytest.mark.parametrize(
    ("source", "target", "lost"),
    [
        ("Plain", "TimestampedWithHeaders", ()),
        ("Timestamped", "TimestampedWithHeaders", ()),
        ("TimestampedWithHeaders", "Timestamped", ("headers",)),
        ("TimestampedWithHeaders", "Plain", ("timestamps", "headers")),
        ("TimestampedWithHeaders", "PlainWithHeaders", ("timestamps",)),
        ("PlainWithHeaders", "Timestamped", ("headers",)),
    ],
)
def test_what_another_format_cannot_hold_is_lost(
    source: str, target: str, lost: tuple[str, ...]
) -> None:
    assert lost_between(Format(source), Format(target)) == lost


@pytest.mark.parametrize("row_format", FORMATS)
@pytest.mark.parametrize("record", [FULL, Record(b"hello", -1), Record(b"", 0)])
def test_a_truncated_row_is_refused_unless_only_its_value_is_cut(
    row_format: Format, record: Record
) -> None:
    row = encode_row(row_format, record)
    value_start = len(row) - len(record.value)
    for size in range(len(row)):
        if size >= value_start:
            shorter = Record(record.value[: size - value_start], record.timestamp, record.headers)
            assert decode_row(row_format, row[:size]) == kept(shorter, row_format)
        else:
            assert_refused_by_every_reader(row_format, row[:size])


@pytest.mark.parametrize("row_format", FORMATS)
@given(row=st.binary(max_size=40))
def test_all_readers_refuse_the_same_rows(row_format: Format, row: bytes) -> None:
    try:
        record = decode_row(row_format, row)
    except MalformedBytesError:
        assert_refused_by_every_reader(row_format, row)
        return
    assert encode_row(row_format, record) == row
    assert decode_value(row_format, row) == record.value
    assert decode_row(row_format, row).timestamp == record.timestamp


@pytest.mark.parametrize("row_format", sorted(WITH_TIMESTAMP))
@pytest.mark.parametrize("timestamp", [2**63, -(2**63) - 1])
@pytest.mark.parametrize("headers", [(), HEADERS])
def test_a_timestamp_beyond_64_bits_is_not_written(
    row_format: Format, timestamp: int, headers: Headers
) -> None:
    with pytest.raises(MalformedRequestError):
        encode_row(row_format, Record(b"v", timestamp, headers))


@pytest.mark.parametrize("row_format", sorted(WITH_TIMESTAMP))
def test_a_missing_timestamp_is_written_as_unknown(row_format: Format) -> None:
    assert decode_row(row_format, encode_row(row_format, Record(b"v"))).timestamp == -1


def assert_refused_by_every_reader(row_format: Format, row: bytes) -> None:
    with pytest.raises(MalformedBytesError):
        decode_row(row_format, row)
    with pytest.raises(MalformedBytesError):
        decode_value(row_format, row)
    with pytest.raises(MalformedBytesError):
        decode_value(row_format, row)
    for target in Format:
        with pytest.raises(MalformedBytesError):
            convert_row(row, row_format, target)
        with pytest.raises(MalformedBytesError):
            converter_of(row_format, target)(row)
