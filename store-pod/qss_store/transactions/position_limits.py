"""Limits the size of a store's position, and of the request that commits one. Pure."""

import msgspec

from qss_core.errors import TooLargeError
from qss_core.positions import (
    COMPONENTS_MAX,
    POSITION_BYTES_MAX,
    TOKEN_BYTES_MAX,
    Position,
    encode_position,
    grown_token_bytes,
)

_POSITION_JSON_BYTES_MAX = 1024 * 1024
_COMMAS_MAX = 4 * COMPONENTS_MAX  # Names of topics may have commas, too.
_CHUNKS_BYTES_MAX = 256 * 1024  # One partition's references: some 4 000.
LESS_POSITION = (
    "read fewer topics or partitions into one store, or let it forget writers that will not come "
    "back (qss writers STORE --delete WRITER)"
)


def commit_bytes_max(partitions: int) -> int:
    """The largest JSON of a commit, in bytes: the largest position and all chunk references."""
    return 2 * _POSITION_JSON_BYTES_MAX + partitions * _CHUNKS_BYTES_MAX


def check_position_json(body: bytes) -> None:
    """Raises TooLargeError where the JSON of a commit's position is too large to be decoded.

    Call it before decoding: a hostile position would become millions of Python objects.
    """
    try:
        position = msgspec.json.decode(body, type=_WithPosition).position
    except msgspec.DecodeError:
        return  # The caller decodes the whole body next, and reports the error.
    if len(bytes(position)) > _POSITION_JSON_BYTES_MAX:
        raise TooLargeError(
            f"the position has {len(bytes(position))} bytes of JSON, at most "
            f"{_POSITION_JSON_BYTES_MAX} are read: {LESS_POSITION}",
            limit=_POSITION_JSON_BYTES_MAX,
        )
    if bytes(position).count(b",") > _COMMAS_MAX:
        raise TooLargeError(
            f"the position has more than {COMPONENTS_MAX} components: {LESS_POSITION}",
            limit=COMPONENTS_MAX,
        )


class _WithPosition(msgspec.Struct):
    position: msgspec.Raw = msgspec.Raw(b"")


def check_position(before: Position, after: Position) -> None:
    """Raises TooLargeError where a batch would make a position too large.

    Only a batch that adds components is refused, and the token is then counted with the largest
    offsets: so a job never stops only because its offsets grow.
    """
    if after.components <= before.components:
        return
    if after.component_count > COMPONENTS_MAX:
        raise TooLargeError(
            f"the position would have {after.component_count} components, at most "
            f"{COMPONENTS_MAX} are allowed: {LESS_POSITION}"
        )
    if (size := len(encode_position(after))) > POSITION_BYTES_MAX:
        raise TooLargeError(
            f"the position would have {size} bytes, at most {POSITION_BYTES_MAX} are allowed: "
            f"{LESS_POSITION}"
        )
    if (size := grown_token_bytes(after)) > TOKEN_BYTES_MAX:
        raise TooLargeError(
            f"the position's token could grow to {size} bytes, at most {TOKEN_BYTES_MAX} fit "
            f"into a request: {LESS_POSITION}"
        )
