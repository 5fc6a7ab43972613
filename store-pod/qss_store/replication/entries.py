"""Changelog entries and their bytes: a head, and a body that the log does not read.

Layout of a stored entry, integers big-endian: version (1) | kind (1) | epoch (8) | wall time in
milliseconds (8) | bytes before (8) | digest before (16) | bytes of the payload (4) | CRC-32 of the
payload (4) | body. Version 1 ends its head after `bytes before`. A log may have entries of both.
An entry's key is its offset (8). Its payload lies under the same key in a family of its own.
"""

import struct
from dataclasses import dataclass
from typing import NamedTuple

from qss_core.errors import CorruptionError
from qss_core.model import Epoch, Offset
from qss_store.replication.digest import NO_DIGEST, Digest

VERSIONS = (1, 2)  # The versions of entries that this program reads.
_HEAD_1 = struct.Struct(">BBQQQ")
_HEAD_2 = struct.Struct(">BBQQQ16sII")
_HEADS = {1: _HEAD_1, 2: _HEAD_2}


@dataclass(frozen=True, slots=True)
class Payload:
    """The size of an entry's payload, and its CRC-32."""

    size: int = 0
    checksum: int = 0


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry. `wall_time_ms` is the active's clock when it was appended, for retention.

    `bytes_before` counts all bytes ever appended before it, so the log's size follows from its two
    ends. `digest_before` is the digest of all entries before it. An entry of version 1 has no
    digest, and says nothing of its payload.
    """

    epoch: Epoch
    wall_time_ms: int
    bytes_before: int
    kind: int  # One byte: the type of the body.
    body: bytes
    digest_before: Digest = NO_DIGEST
    payload: Payload | None = None


def encode_offset(offset: int) -> bytes:
    """An entry's key, whose byte order is the offset order."""
    return offset.to_bytes(8, "big")


def decode_offset(key: bytes) -> Offset:
    return Offset(int.from_bytes(key, "big"))


def encode_entry(entry: Entry) -> bytes:
    """The entry's bytes, in version 1 where the entry does not describe its payload."""
    members = (entry.kind, entry.epoch, entry.wall_time_ms, entry.bytes_before)
    payload = entry.payload
    if payload is None:
        return _HEAD_1.pack(1, *members) + entry.body
    head = _HEAD_2.pack(2, *members, entry.digest_before, payload.size, payload.checksum)
    return head + entry.body


class EntryHead(NamedTuple):
    """The head of an entry: all that the log needs without the body."""

    kind: int
    epoch: int
    wall_time_ms: int
    bytes_before: int
    digest_before: Digest | None = None  # None in version 1.
    payload_bytes: int = 0
    payload_checksum: int = 0


def decode_head(data: bytes) -> EntryHead:
    """The head of a stored entry. Raises CorruptionError if it is not valid."""
    head = _HEADS.get(data[0]) if data else _HEAD_2
    if head is None:
        *older, newest = map(str, VERSIONS)
        raise CorruptionError(
            f"a changelog entry has version {data[0]}; this program reads {', '.join(older)} and "
            f"{newest}: upgrade it"
        )
    try:
        _, *members = head.unpack_from(data)
    except struct.error as error:
        raise CorruptionError("a changelog entry has no valid head") from error
    return EntryHead(*members)


def decode_entry(data: bytes) -> Entry:
    """Decodes a stored entry. Raises CorruptionError if its head is not valid."""
    head = decode_head(data)
    body = data[_HEADS[data[0]].size :]
    at = (Epoch(head.epoch), head.wall_time_ms, head.bytes_before, head.kind, body)
    if head.digest_before is None:
        return Entry(*at)
    return Entry(*at, head.digest_before, Payload(head.payload_bytes, head.payload_checksum))
