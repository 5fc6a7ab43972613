"""Encodes a small batch as one request: the commit, and its rows, which are not staged.

Layout: length of the JSON (4 bytes, big-endian) | CommitRequest as JSON | a chunk (`chunks`).
"""

from collections.abc import Sequence

from qss_client.chunks.chunk import Slice
from qss_core.errors import MalformedBytesError
from qss_core.wire.messages import CommitRequest, decode, encode

BATCH_MEDIA = "application/vnd.queryablestate.batch"
CARRIED_BYTES_MAX = 512 * 1024  # The whole body. Every pod's log and memory hold it for a while.
CARRIED_ROWS_BYTES_MAX = CARRIED_BYTES_MAX - 64 * 1024
_LENGTH_BYTES = 4


def encode_batch(request: CommitRequest, rows: Sequence[Slice]) -> bytes:
    message = encode(request)
    return b"".join(
        [len(message).to_bytes(_LENGTH_BYTES, "big"), message, *(one.data for one in rows)]
    )


def decode_batch(body: bytes) -> tuple[CommitRequest, bytes]:
    """The commit, and the chunk, which is not checked.

    Raises MalformedBytesError, and MalformedRequestError for an invalid CommitRequest.
    """
    end = _LENGTH_BYTES + int.from_bytes(body[:_LENGTH_BYTES], "big")
    if len(body) < _LENGTH_BYTES or len(body) < end:
        raise MalformedBytesError("the batch ends inside its CommitRequest")
    return decode(body[_LENGTH_BYTES:end], CommitRequest), body[end:]
