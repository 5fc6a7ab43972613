"""Encodes and decodes the row bytes of a record in one call."""

from dataclasses import dataclass

from qss_core.formats.headers import Headers, decode_headers
from qss_core.formats.values import TIMESTAMP_UNKNOWN, Format, encoder_of, splitter_of


@dataclass(frozen=True, slots=True)
class Record:
    """A row's value, with the other members that its format keeps."""

    value: bytes
    timestamp: int | None = None  # Milliseconds since the epoch; -1: unknown; None: not kept.
    headers: Headers = ()


def encode_row(row_format: Format, record: Record) -> bytes:
    """The bytes of a row; a missing timestamp is written as -1."""
    timestamp = TIMESTAMP_UNKNOWN if record.timestamp is None else record.timestamp
    return encoder_of(row_format)(record.value, timestamp, record.headers)


def decode_row(row_format: Format, row: bytes) -> Record:
    """The record of a row. Raises MalformedBytesError."""
    block, timestamp, value = splitter_of(row_format)(row)
    return Record(value, timestamp, decode_headers(block))
