"""The rows that a batch get found, as objects: one encoder writes all of them at once.

A row by row writer costs three times as much, most of it for the calls.
"""

import struct
from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any

import msgspec

from qss_core.errors import MalformedBytesError
from qss_core.formats.values import TIMESTAMP_BYTES, Format
from qss_core.model import PartitionId
from qss_core.queries.requests import KeyStatus
from qss_core.serdes.contract import Serde
from qss_store.reads.codec import Codec, make_row_writer

_FOUND = KeyStatus.FOUND.value


class _Timestamped(msgspec.Struct, gc=False):
    """A row of the usual format; the members of rows.py's writers, in their order."""

    key: Any
    value: Any
    timestamp: int
    partition: int
    status: str = _FOUND


def found_rows(
    codec: Codec, partition: PartitionId, keys: Iterable[bytes], rows: Iterable[bytes]
) -> list[Any] | None:
    """What msgspec encodes as the results of keys; None where a row is damaged."""
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
    # `map` throughout: a loop of our own would cost as much as all the rest.
    values: Iterable[Any] = [row[TIMESTAMP_BYTES:] for row in kept]
    if codec.value.name != "bytes":  # Base64 in JSON, by the encoder.
        values = map(_objects_of(codec.value), values)
    try:
        stamps = struct.unpack(f">{len(kept)}q", b"".join([row[:TIMESTAMP_BYTES] for row in kept]))
    except struct.error as error:
        raise MalformedBytesError("a row ends inside its timestamp") from error
    keys_shown = map(_objects_of(codec.key), keys)
    return [*map(_Timestamped, keys_shown, values, stamps, repeat(partition))]


def _objects_of(serde: Serde) -> Callable[[bytes], Any]:
    """The function (stored bytes) -> what msgspec encodes as the serde's JSON."""
    if serde.name == "string":
        return bytes.decode
    if serde.name == "bytes":
        return bytes  # Which gives back the same object.
    return lambda data: msgspec.Raw(serde.json_bytes(data))
