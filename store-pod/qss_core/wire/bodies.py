"""Decodes the JSON bodies of requests, and refuses an object that has a member twice.

RFC 8259 does not define such an object: some readers take the first member, some the last.
"""

import json
import re
from typing import Any, TypeVar

from qss_core.errors import MalformedRequestError
from qss_core.wire.messages import decode

Message = TypeVar("Message")
_NAMES = re.compile(rb'"([^"\\]*)"\s*:')


def decode_request(data: bytes, kind: type[Message]) -> Message:
    """The message in JSON bytes; MalformedRequestError names the wrong or repeated member."""
    message = decode(data, kind)
    if _may_repeat(data):
        _check(data)
    return message


def _may_repeat(data: bytes) -> bool:
    """Whether two members might have one name. Quick, and False for most bodies."""
    if data.count(b":") < 2:
        return False
    names = _NAMES.findall(data)
    return len(set(names)) < len(names) or b"\\" in data


def _check(data: bytes) -> None:
    try:
        # Numbers stay text: Python refuses to parse very long integers.
        json.loads(data, object_pairs_hook=_once, parse_int=str, parse_float=str)
    except UnicodeDecodeError as error:  # msgspec does not look at every byte.
        raise MalformedRequestError(f"the body is not UTF-8: {error.reason}") from error
    except RecursionError as error:  # Its limit lies a little below that of msgspec.
        raise MalformedRequestError("the body is nested too deeply") from error


def _once(members: list[tuple[str, Any]]) -> None:
    seen: set[str] = set()
    for name, _ in members:
        if name in seen:
            raise MalformedRequestError(
                f"the body has the member {name[:80]!r} twice: give it once"
            )
        seen.add(name)
