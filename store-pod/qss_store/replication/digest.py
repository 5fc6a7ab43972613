"""The running digest of a log, and the places between its entries.

An entry of version 2 has the digest of all entries before it, and the checksum of its payload. So
two logs that have the same digest at an offset have the same entries and rows below that offset,
from their first entry of version 2 on. The digest is BLAKE2b (RFC 7693) of the entry's bytes.
"""

import hashlib
from typing import NewType

import msgspec

from qss_core.model import Epoch, Offset

Digest = NewType("Digest", bytes)  # 16 bytes.
NO_DIGEST = Digest(bytes(16))  # The digest of a log that never had an entry.


class LogPoint(msgspec.Struct, frozen=True):
    """A place in a log: the next entry's offset, with the epoch and the digest before it."""

    offset: Offset
    epoch: Epoch  # The epoch of the entry before; 0 at the beginning.
    digest: Digest  # The digest of all entries before.


def digest_after(entry: bytes) -> Digest:
    """The digest of all entries up to this one, given its stored bytes."""
    return Digest(hashlib.blake2b(entry, digest_size=len(NO_DIGEST)).digest())
