"""Kafka Streams' layouts of versioned stores, which stores do not use; big-endian.

A latest row: segment -1 | key -> timestamp (8) | value. A row of a segment: segment (8) | key ->
the next timestamp (8) | the smallest one (8) | newest first, for each version: valid from (8), size
(4; -1: a tombstone) | the values, oldest first. The list ends at the smallest timestamp. A single
tombstone has equal next and smallest timestamps.
"""

import struct
from typing import NamedTuple

LATEST_SEGMENT = -1
_TIME = struct.Struct(">q")
_HEAD = struct.Struct(">qq")
_ENTRY = struct.Struct(">qi")
_TOMBSTONE = -1


class Version(NamedTuple):
    """A version, or a tombstone (None)."""

    value: bytes | None
    valid_from: int
    valid_to: int


def encode_key(segment: int, key: bytes) -> bytes:
    """The row key: the segment's number, then the record key."""
    return _TIME.pack(segment) + key


def decode_key(row_key: bytes) -> tuple[int, bytes]:
    """The segment's number and the record key."""
    return _TIME.unpack_from(row_key)[0], row_key[_TIME.size :]


def encode_latest(value: bytes, timestamp: int) -> bytes:
    """The value of a latest row."""
    return _TIME.pack(timestamp) + value


def decode_latest(row: bytes) -> tuple[bytes, int]:
    """The newest value and its timestamp."""
    return row[_TIME.size :], _TIME.unpack_from(row)[0]


def encode_segment(versions: list[Version]) -> bytes:
    """The value of a segment's row; a gap between two versions is a tombstone.

    A gap after a tombstone is a second tombstone, unless the first is the only entry: then they are
    one.
    """
    entries: list[tuple[int, bytes | None]] = []
    end = versions[0].valid_from
    for version in versions:
        if version.valid_from > end and entries[-1] != (end, None):
            entries.append((end, None))
        entries.append((version.valid_from, version.value))
        end = version.valid_to
    head = _HEAD.pack(end, versions[0].valid_from)
    listed = b"".join(
        _ENTRY.pack(time, _TOMBSTONE if value is None else len(value))
        for time, value in reversed(entries)
    )
    return head + listed + b"".join(value for _, value in entries if value is not None)


def decode_segment(row: bytes) -> list[Version]:
    """The entries of a segment's row, newest first, with tombstones."""
    end, smallest = _HEAD.unpack_from(row)
    sizes: list[tuple[int, int]] = []
    at = _HEAD.size
    while not sizes or sizes[-1][0] != smallest:
        sizes.append(_ENTRY.unpack_from(row, at))
        at += _ENTRY.size
    versions: list[Version] = []
    values_end = len(row)
    for time, size in sizes:
        value = None if size == _TOMBSTONE else row[values_end - size : values_end]
        values_end -= max(0, size)
        versions.append(Version(value, time, end))
        end = time
    assert values_end == at, "nothing between the list and the values"
    return versions
