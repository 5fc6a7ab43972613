"""The rows of a batch get as objects, which one msgspec call encodes.

A writer for single rows takes three times as long, mostly for the calls.
"""

import struct
from collections.abc import Iterable
from itertools import repeat
from typing import Any

import msgspec

from qss_core.errors import MalformedBytesError
from qss_core.formats.values import TIMESTAMP_BYTES, Format
from qss_core.model import PartitionId
from qss_core.queries.requests import KeyStatus
from qss_store.reads.codec import Codec, make_row_writer
from qss_store.reads.encode.objects import show_of

_FOUND = KeyStatus.FOUND.value


class _Timestamped(msgspec.Struct, gc=False):
    """A row of the usual format, with the members in the order of `codec`'s writers."""

    key: Any
    value: Any
    timestamp: int
    partition: int
    status: str = _FOUND


def found_rows(
    codec: Codec, partition: PartitionId, keys: Iterable[bytes], rows: Iterable[bytes]
) -> list[Any] | None:
    """The objects to encode as the results of keys; None if a row is damaged."""
    try:
        if codec.format is Format.Timestamped:
            return _timestamped(codec, partition, keys, rows)
        tail = b',"partition":%d,"status":"%b"}' % (partition, _FOUND.encode())
        write = make_row_writer(codec, codec.shape, tail)
        return [msgspec.Raw(write(key, row)) for key, row in zip(keys, rows, strict=True)]
    except (UnicodeDecodeError, MalformedBytesError):
        return None


def _timestamped(
    codec: Codec, partition: PartitionId, keys: Iterable[bytes], rows: Iterable[bytes]
) -> list[Any]:
    kept = [*rows]
    # `map` throughout: a Python loop would cost as much as all the rest.
    values = show_of(codec.value)([row[TIMESTAMP_BYTES:] for row in kept])
    try:
        stamps = struct.unpack(f">{len(kept)}q", b"".join([row[:TIMESTAMP_BYTES] for row in kept]))
    except struct.error as error:
        raise MalformedBytesError("a row ends inside its timestamp") from error
    keys_shown = show_of(codec.key)([*keys])
    return [*map(_Timestamped, keys_shown, values, stamps, repeat(partition))]
