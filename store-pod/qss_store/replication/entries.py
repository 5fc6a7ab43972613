"""Changelog entries and their bytes: a kind, an epoch and a body that the log does not read.

Layout of a stored entry, integers big-endian: version (1) | kind (1) | epoch (8) | wall time in
milliseconds (8) | bytes before (8) | body. An entry's key is its offset (8).
"""

import struct
from dataclasses import dataclass
from typing import NamedTuple

from qss_core.errors import CorruptionError
from qss_core.model import Epoch, Offset

_VERSION = 1
_HEAD = struct.Struct(">BBQQQ")


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry. `wall_time_ms` is the active's clock when it was appended, for retention.

    `bytes_before` counts all bytes ever appended before it, so the log's size follows from its two
    ends.
    """

    epoch: Epoch
    wall_time_ms: int
    bytes_before: int
    kind: int  # One byte: the type of the body.
    body: bytes


def encode_offset(offset: int) -> bytes:
    """An entry's key, whose byte order is the offset order."""
    return offset.to_bytes(8, "big")


def decode_offset(key: bytes) -> Offset:
    return Offset(int.from_bytes(key, "big"))


def encode_entry(entry: Entry) -> bytes:
    head = _HEAD.pack(_VERSION, entry.kind, entry.epoch, entry.wall_time_ms, entry.bytes_before)
    return head + entry.body


class EntryHead(NamedTuple):
    """What retention needs of an entry."""

    kind: int
    epoch: int
    wall_time_ms: int
    bytes_before: int


def decode_head(data: bytes) -> EntryHead:
    """The head of a stored entry. Raises CorruptionError if it is not valid."""
    try:
        version, *members = _HEAD.unpack_from(data)
    except struct.error as error:
        raise CorruptionError("a changelog entry has no valid head") from error
    if version != _VERSION:
        raise CorruptionError(
            f"a changelog entry has version {version}; this program reads {_VERSION}: upgrade it"
        )
    return EntryHead(*members)


def decode_entry(data: bytes) -> Entry:
    """Decodes a stored entry. Raises CorruptionError if its head is not valid."""
    head = decode_head(data)
    body = data[_HEAD.size :]
    return Entry(Epoch(head.epoch), head.wall_time_ms, head.bytes_before, head.kind, body)
