"""How large a store's position may become. Pure."""

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
_LESS_POSITION = (
    "read fewer topics or partitions into one store, or let it forget writers that will not come "
    "back (qss writers STORE --delete WRITER)"
)


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
            f"{_POSITION_JSON_BYTES_MAX} are read: {_LESS_POSITION}",
            limit=_POSITION_JSON_BYTES_MAX,
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
            f"{COMPONENTS_MAX} are allowed: {_LESS_POSITION}"
        )
    if (size := len(encode_position(after))) > POSITION_BYTES_MAX:
        raise TooLargeError(
            f"the position would have {size} bytes, at most {POSITION_BYTES_MAX} are allowed: "
            f"{_LESS_POSITION}"
        )
    if (size := grown_token_bytes(after)) > TOKEN_BYTES_MAX:
        raise TooLargeError(
            f"the position's token could grow to {size} bytes, at most {TOKEN_BYTES_MAX} fit "
            f"into a request: {_LESS_POSITION}"
        )
