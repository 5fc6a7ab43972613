"""Cursors: the rest of a scan in a token, which any pod accepts, also after a restart.

Bytes, integers big-endian: version (1) | CRC-32 of all that follows (4) | digest of the plan (8) |
store id length (1), store id | pieces (2), and for each: partition (2) | sequence (8) | length of
the last key read + 1, 0 for none (4), the key. A token is the unpadded base64url of these bytes.

In version 2 the partition of its row (2) stands behind each last key. It is that of pages by time
where the writers choose partitions: a key may be in several, so its rows may have one order.
Without a last key such a cursor has version 1, which pods of the version before read, too.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass

from zlib_ng.zlib_ng import crc32

from qss_core.errors import MalformedCursorError, MalformedRequestError
from qss_core.model import Partitioner, PartitionId, Sequence
from qss_core.text import decode_base64url, encode_base64url
from qss_store.reads.codec import Codec
from qss_store.reads.plans.dispatch import RowsPlan
from qss_store.reads.plans.times import TimedPlan

_VERSION, _WITH_PARTITION = b"\x01", b"\x02"
_CRC = struct.Struct(">I")
_DIGEST = 8
_COUNT = struct.Struct(">H")
_PIECE = struct.Struct(">HQI")
_OF_LAST = struct.Struct(">H")
_NO_SEQUENCE = Sequence(0)
_WHAT_TO_DO = "start the query again without a cursor"


@dataclass(frozen=True, slots=True)
class Piece:
    """The rest of one partition: the rows after `last_key`, or all rows.

    `sequence` is that of the state with the last key; the rest is never read from an older state.
    `last_partition` is that of the row with the last key, where another one may have the key, too.
    """

    partition: PartitionId
    last_key: bytes | None = None
    sequence: Sequence = _NO_SEQUENCE
    last_partition: PartitionId | None = None


Bounds = tuple[bytes | None, bytes | None]


def bounds_after(
    last_key: bytes | None, lower: bytes | None, upper: bytes | None, *, reverse: bool
) -> Bounds:
    """The bounds of the keys in [lower, upper) after `last_key`.

    A cursor may be forged: the bounds never exceed those of the query.
    """
    if last_key is None:
        return lower, upper
    if reverse:
        upper = last_key if upper is None else min(upper, last_key)
    else:
        lower = max(lower or b"", last_key + b"\x00")
    if lower is not None and upper is not None and lower > upper:
        return upper, upper
    return lower, upper


def encode_cursor(pieces: Iterable[Piece], plan: RowsPlan, codec: Codec) -> str | None:
    """The token of the rest of a scan; None if nothing is left."""
    left = list(pieces)
    if not left:
        return None
    store_id, version = codec.store_id.encode(), _VERSION
    if _needs_partitions(plan, codec) and any(piece.last_key is not None for piece in left):
        version = _WITH_PARTITION
    parts = [plan.digest, bytes((len(store_id),)), store_id, _COUNT.pack(len(left))]
    for piece in left:
        last = piece.last_key
        if last is not None and version == _WITH_PARTITION:
            assert piece.last_partition is not None, "a row has its partition"
            last += _OF_LAST.pack(piece.last_partition)
        length = 0 if last is None else len(last) + 1
        parts.append(_PIECE.pack(piece.partition, piece.sequence, length))
        parts.append(last or b"")
    content = b"".join(parts)
    return encode_base64url(version + _CRC.pack(crc32(content)) + content)


def _needs_partitions(plan: RowsPlan, codec: Codec) -> bool:
    """Whether the last keys of a query's cursors need the partitions of their rows."""
    is_by_time = isinstance(plan, TimedPlan) and plan.by_time
    return is_by_time and codec.partitioner is Partitioner.EXPLICIT


def decode_cursor(token: str, plan: RowsPlan, codec: Codec) -> tuple[Piece, ...]:
    """The rest of a scan. Raises MalformedCursorError, also for another query's cursor."""
    version, content = _checked(token)
    digest, rest = content[:_DIGEST], content[_DIGEST:]
    store_id, rest = rest[1 : 1 + rest[0]], rest[1 + rest[0] :]
    if store_id != codec.store_id.encode():
        raise MalformedCursorError(f"the cursor is of another store: {_WHAT_TO_DO}")
    if digest != plan.digest:
        raise MalformedCursorError(
            "the cursor is of another query: bounds and order have to stay the same, or "
            + _WHAT_TO_DO
        )
    pieces = tuple(_read_pieces(rest, has_partitions=version == _WITH_PARTITION))
    has_keys = any(piece.last_key is not None for piece in pieces)
    if (version == _WITH_PARTITION) is not (has_keys and _needs_partitions(plan, codec)):
        raise _malformed()
    named = [piece.partition for piece in pieces]
    if len(set(named)) != len(named):
        raise MalformedCursorError(f"the cursor names a partition twice: {_WHAT_TO_DO}")
    if any(partition >= codec.partitions for partition in named):
        raise MalformedCursorError(
            f"the cursor names a partition that does not exist: {_WHAT_TO_DO}"
        )
    return pieces


def _checked(token: str) -> tuple[bytes, bytes]:
    """The version and the content of a token. Raises MalformedCursorError."""
    try:
        data = decode_base64url(token)
    except MalformedRequestError as error:
        raise _malformed() from error
    head = len(_VERSION) + _CRC.size
    version, content = data[:1], data[head:]
    is_known = version in (_VERSION, _WITH_PARTITION)
    if not is_known or len(content) < _DIGEST + 1 + _COUNT.size:
        raise _malformed()
    if data[1:head] != _CRC.pack(crc32(content)):
        raise _malformed()
    return version, content


def _read_pieces(data: bytes, *, has_partitions: bool) -> Iterable[Piece]:
    try:
        count: int = _COUNT.unpack_from(data)[0]
        at = _COUNT.size
        for _ in range(count):
            partition, sequence, length = _PIECE.unpack_from(data, at)
            at += _PIECE.size
            key = data[at : at + length - 1] if length else None
            at += max(0, length - 1)
            last: PartitionId | None = None
            if key is not None and has_partitions:
                last = PartitionId(_OF_LAST.unpack(key[-_OF_LAST.size :])[0])
                key = key[: -_OF_LAST.size]
            yield Piece(PartitionId(partition), key, Sequence(sequence), last)
    except struct.error as error:
        raise _malformed() from error
    if at != len(data):
        raise _malformed()


def _malformed() -> MalformedCursorError:
    return MalformedCursorError(f"not a cursor that this store gave out: {_WHAT_TO_DO}")
