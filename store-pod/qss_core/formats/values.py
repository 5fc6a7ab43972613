"""The value bytes of a row in each store format, and the conversion between formats.

`Plain`: value. `Timestamped` (KIP-258): timestamp (8), value. `TimestampedWithHeaders` (KIP-1271):
size, headers block, timestamp (8), value. `PlainWithHeaders` (KIP-1300, the same bytes as
KIP-1271's aggregations): size, headers block, value. The size is the block's length in bytes as a
varint, the timestamp a big-endian signed number of milliseconds since 1970.

Every reader refuses a malformed row, even if it needs only a part: Kafka's readers that only strip
return wrong bytes for a negative size.
"""

import struct
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from typing import assert_never

from qss_core.errors import MalformedBytesError, MalformedRequestError
from qss_core.formats.headers import Headers, decode_headers, encode_headers
from qss_core.varint import decode_varint, encode_varint

TIMESTAMP_UNKNOWN = -1

_TIMESTAMP = struct.Struct(">q")
# The size 0 (no headers), then the timestamp.
_TIMESTAMP_WITHOUT_HEADERS = struct.Struct(">xq")
TIMESTAMP_BYTES = 8
_NO_HEADERS = b"\x00"
_UNKNOWN = _TIMESTAMP.pack(TIMESTAMP_UNKNOWN)


class Format(StrEnum):
    """The layout of a row's value bytes: `spec.store.format`."""

    Plain = "Plain"
    Timestamped = "Timestamped"
    TimestampedWithHeaders = "TimestampedWithHeaders"
    PlainWithHeaders = "PlainWithHeaders"


RowEncoder = Callable[[bytes, int, Headers], bytes]
# A row's encoded headers block, timestamp in milliseconds (None: not kept) and value.
RowSplitter = Callable[[bytes], tuple[bytes, int | None, bytes]]
RowConverter = Callable[[bytes], bytes]


def encoder_of(row_format: Format) -> RowEncoder:
    """The function (value, timestamp in ms, headers) -> row bytes, for many rows.

    It drops members that the format does not keep, and raises MalformedRequestError for a timestamp
    beyond 64 bits.
    """
    return _ENCODERS[row_format]


def splitter_of(row_format: Format) -> RowSplitter:
    """The function that splits a row, for many rows.

    It raises MalformedBytesError, and does not decode the headers block.
    """
    return _SPLITTERS[row_format]


def decode_value(row_format: Format, row: bytes) -> bytes:
    """The value only. Raises MalformedBytesError for a malformed row, its headers included."""
    if row_format is Format.Timestamped:
        # Almost every point read comes here, and needs no timestamp.
        if len(row) < TIMESTAMP_BYTES:
            raise _too_short(row)
        return row[TIMESTAMP_BYTES:]
    block, _, value = _SPLITTERS[row_format](row)
    if block:
        decode_headers(block)
    return value


def convert_row(row: bytes, source: Format, target: Format) -> bytes:
    """Converts a row; an unknown timestamp is -1, unknown headers are empty.

    Members that the target does not keep are lost. Raises MalformedBytesError for a malformed row.
    """
    block, timestamp, value = _SPLITTERS[source](row)
    if block:
        decode_headers(block)
    if source is target:
        return row
    stamp = _UNKNOWN if timestamp is None else _TIMESTAMP.pack(timestamp)
    match target:
        case Format.Plain:
            return value
        case Format.Timestamped:
            return stamp + value
        case Format.TimestampedWithHeaders:
            return encode_varint(len(block)) + block + stamp + value
        case Format.PlainWithHeaders:
            return encode_varint(len(block)) + block + value
    assert_never(target)


def converter_of(source: Format, target: Format) -> RowConverter:
    """The function that converts rows like `convert_row`, for many rows."""
    match source, target:
        case Format.Plain, Format.Timestamped:
            return _UNKNOWN.__add__
        case Format.Plain, Format.TimestampedWithHeaders:
            return (_NO_HEADERS + _UNKNOWN).__add__
        case Format.Plain, Format.PlainWithHeaders:
            return _NO_HEADERS.__add__
        case Format.Timestamped, Format.Plain:
            return partial(decode_value, Format.Timestamped)
        case Format.Timestamped, Format.TimestampedWithHeaders:
            return _with_no_headers
    return partial(convert_row, source=source, target=target)


def lost_between(source: Format, target: Format) -> tuple[str, ...]:
    """The members (timestamps, headers) that the source format keeps and the target does not."""
    return tuple(
        what
        for what, formats in (("timestamps", _WITH_TIMESTAMP), ("headers", _WITH_HEADERS))
        if source in formats and target not in formats
    )


def _with_no_headers(timestamped: bytes) -> bytes:
    if len(timestamped) < TIMESTAMP_BYTES:
        raise _too_short(timestamped)
    return _NO_HEADERS + timestamped


_WITH_TIMESTAMP = (Format.Timestamped, Format.TimestampedWithHeaders)
_WITH_HEADERS = (Format.TimestampedWithHeaders, Format.PlainWithHeaders)


def _encode_plain(value: bytes, _timestamp: int, _headers: Headers) -> bytes:
    return value


def _encode_timestamped(value: bytes, timestamp: int, _headers: Headers) -> bytes:
    try:
        return _TIMESTAMP.pack(timestamp) + value
    except struct.error as error:
        raise _timestamp_refused(timestamp) from error


def _encode_timestamped_with_headers(value: bytes, timestamp: int, headers: Headers) -> bytes:
    try:
        if not headers:
            return _TIMESTAMP_WITHOUT_HEADERS.pack(timestamp) + value
        stamp = _TIMESTAMP.pack(timestamp)
    except struct.error as error:
        raise _timestamp_refused(timestamp) from error
    block = encode_headers(headers)
    return encode_varint(len(block)) + block + stamp + value


def _encode_plain_with_headers(value: bytes, _timestamp: int, headers: Headers) -> bytes:
    if not headers:
        return _NO_HEADERS + value
    block = encode_headers(headers)
    return encode_varint(len(block)) + block + value


_ENCODERS: dict[Format, RowEncoder] = {
    Format.Plain: _encode_plain,
    Format.Timestamped: _encode_timestamped,
    Format.TimestampedWithHeaders: _encode_timestamped_with_headers,
    Format.PlainWithHeaders: _encode_plain_with_headers,
}


# The encoded headers block, timestamp and value of a row.
_Parts = tuple[bytes, int | None, bytes]


def _split_plain(row: bytes) -> _Parts:
    return b"", None, row


def _split_timestamped(row: bytes) -> _Parts:
    if len(row) < TIMESTAMP_BYTES:
        raise _too_short(row)
    return b"", _TIMESTAMP.unpack_from(row)[0], row[TIMESTAMP_BYTES:]


def _split_timestamped_with_headers(row: bytes) -> _Parts:
    block, end = _split_block(row)
    return block, *_split_timestamp(row, end)


def _split_plain_with_headers(row: bytes) -> _Parts:
    block, end = _split_block(row)
    return block, None, row[end:]


def _split_block(row: bytes) -> tuple[bytes, int]:
    if row[:1] == _NO_HEADERS:
        return b"", 1
    size, start = decode_varint(row)
    end = start + size
    if size < 0 or end > len(row):
        raise MalformedBytesError(f"a headers block of {size} bytes in a row of {len(row)} bytes")
    return row[start:end], end


def _split_timestamp(row: bytes, offset: int) -> tuple[int, bytes]:
    end = offset + TIMESTAMP_BYTES
    if end > len(row):
        raise _too_short(row)
    timestamp: int = _TIMESTAMP.unpack_from(row, offset)[0]
    return timestamp, row[end:]


_SPLITTERS: dict[Format, Callable[[bytes], _Parts]] = {
    Format.Plain: _split_plain,
    Format.Timestamped: _split_timestamped,
    Format.TimestampedWithHeaders: _split_timestamped_with_headers,
    Format.PlainWithHeaders: _split_plain_with_headers,
}


def _too_short(row: bytes) -> MalformedBytesError:
    return MalformedBytesError(f"a row of {len(row)} bytes ends inside its timestamp")


def _timestamp_refused(timestamp: int) -> MalformedRequestError:
    return MalformedRequestError(
        f"the timestamp {timestamp} is not a 64-bit number of milliseconds"
    )
