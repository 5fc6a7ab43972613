"""Encodes and decodes the row bytes of a record in one call."""

from qss_core.formats.headers import decode_headers
from qss_core.formats.values import TIMESTAMP_UNKNOWN, Format, Record, encoder_of, splitter_of


def encode_row(row_format: Format, record: Record) -> bytes:
    """The bytes of a row; a missing timestamp is written as -1."""
    timestamp = TIMESTAMP_UNKNOWN if record.timestamp is None else record.timestamp
    return encoder_of(row_format)(record.value, timestamp, record.headers)


def decode_row(row_format: Format, row: bytes) -> Record:
    """The record of a row. Raises MalformedBytesError."""
    block, timestamp, value = splitter_of(row_format)(row)
    return Record(value, timestamp, decode_headers(block))
