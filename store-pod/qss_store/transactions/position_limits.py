"""How large a store's position, and the request that commits one, may become. Pure."""

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
_COMMAS_MAX = 4 * COMPONENTS_MAX  # Names of topics may have some, too.
_CHUNKS_BYTES_MAX = 256 * 1024  # Of one partition's references: some 4 000.
LESS_POSITION = (
    "read fewer topics or partitions into one store, or let it forget writers that will not come "
    "back (qss writers STORE --delete WRITER)"
)


def commit_bytes_max(partitions: int) -> int:
    """The largest JSON of a commit, in bytes: what its chunks and its position may need."""
    return 2 * _POSITION_JSON_BYTES_MAX + partitions * _CHUNKS_BYTES_MAX


def check_position_json(body: bytes) -> None:
    """Raises TooLargeError where a commit's position is too large to be looked at.

    It is asked before the position becomes Python's objects, of which it would make millions.
    """
    try:
        position = msgspec.json.decode(body, type=_WithPosition).position
    except msgspec.DecodeError:
        return  # Whoever decodes all of it says what is wrong.
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

    Asked where it adds to it, and then for offsets that have grown: no job is to stand still
    because its inputs go on.
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
