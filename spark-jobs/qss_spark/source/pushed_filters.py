"""Makes options of a read from a filter: which keys and times its rows can have.

The options may let more rows through than the filter, never fewer: Spark applies the filter again.
So a filter narrows a read only where Spark and the store agree about equality and order. Keys of
string, bytes and whole numbers have both. A uuid has several texts, a float two zeros, and JSON
many texts of one value: these keys narrow nothing.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from qss_client.chunks.chunk import KEY_BYTES_MAX
from qss_client.chunks.chunk_schema import SESSION_END, SESSION_START, WINDOW_START
from qss_core.errors import StoreError
from qss_core.model import StoreDefinition, StoreType
from qss_core.serdes.registry import serde_of
from qss_core.text import encode_base64url
from qss_core.times import time_of_text
from qss_spark.options import KEY_OPTIONS, KEYS_MAX

_WHOLE_NUMBERS = {"int16": 16, "int32": 32, "int64": 64}
_EQUAL = ("EqualTo", "EqualNullSafe")
_BELOW = ("LessThan", "LessThanOrEqual")
_ABOVE = ("GreaterThan", "GreaterThanOrEqual")


@dataclass(frozen=True, slots=True)
class Predicate:
    """A part of a filter that each row has to fulfil; `name` is that of Spark's class.

    value: a key as Python has it, a tuple of keys for `In`, milliseconds since 1970 for a time.
    """

    name: str
    column: str
    value: Any


def options_of(
    predicates: Iterable[Predicate], definition: StoreDefinition, given: Mapping[str, str]
) -> dict[str, str]:
    """The options that narrow a read to the rows that the predicates let through.

    given: the user's own options. Where these choose keys or times, the predicates do not.
    """
    texts = {name.lower(): text for name, text in given.items()}
    names = set(texts)
    predicates = list(predicates)
    found: dict[str, str] = {}
    if not names & {name.lower() for name in KEY_OPTIONS[definition.row_type]}:
        of_keys = [one for one in predicates if one.column == "key"]
        found |= _options_of_keys(of_keys, definition, has_partitions="partitions" in names)
    found |= {
        name: text
        for name, text in _options_of_times(predicates, definition, texts).items()
        if name.lower() not in names
    }
    return found


def _options_of_keys(
    predicates: Sequence[Predicate], definition: StoreDefinition, *, has_partitions: bool
) -> dict[str, str]:
    serde = definition.key_serde
    if serde not in ("string", "bytes", *_WHOLE_NUMBERS):
        return {}
    keys = _wanted_keys(predicates)
    keys = None if keys is None else [one for one in keys if _can_be(one)]
    if keys is not None and len(keys) <= KEYS_MAX and not has_partitions:
        try:
            return {"keys": json.dumps([_json_of(key, serde) for key in keys])}
        except StoreError:  # For example a number that the serde does not hold.
            return {}
    if definition.row_type in (StoreType.KEY_VALUE, StoreType.CUSTOM) and serde == "string":
        prefixes = [one.value for one in predicates if one.name == "StringStartsWith" and one.value]
        prefixes = [one for one in prefixes if _can_be(one)]
        if prefixes:
            return {"prefix": max(prefixes, key=len)}
    is_of_keys = definition.row_type in (StoreType.KEY_VALUE, StoreType.CUSTOM)
    first, last = ("from", "to") if is_of_keys else ("keyFrom", "keyTo")
    lower, upper = _range(predicates, serde)
    texts = {first: lower, last: upper}
    return {
        name: _text_of(key, serde)
        for name, key in texts.items()
        if key is not None and _can_be(key)
    }


def _can_be(key: Any) -> bool:
    """Whether a key is short enough for a store: a read refuses a longer one."""
    data = key.encode() if isinstance(key, str) else key
    return not isinstance(data, bytes | bytearray) or len(data) <= KEY_BYTES_MAX


def _wanted_keys(predicates: Sequence[Predicate]) -> list[Any] | None:
    """The keys that all equalities and lists allow, sorted; None without any."""
    allowed: set[Any] | None = None
    for one in predicates:
        if one.name in _EQUAL:
            some = {one.value}
        elif one.name == "In":
            some = set(one.value)
        else:
            continue
        allowed = some if allowed is None else allowed & some
    return None if allowed is None else sorted(allowed - {None})


def _range(predicates: Sequence[Predicate], serde: str) -> tuple[Any, Any]:
    """The inclusive bounds, in the store's order; None for an open bound."""
    lows = [one.value for one in predicates if one.name in _ABOVE]
    highs = [one.value for one in predicates if one.name in _BELOW]
    lower, upper = max(lows, default=None), min(highs, default=None)
    if lower is not None and upper is not None and lower > upper:
        return None, None  # No row: Spark's filter finds that out.
    if serde not in _WHOLE_NUMBERS:
        return lower, upper
    # A store sorts negative numbers behind the others, so a range does not cross zero.
    largest = (1 << (_WHOLE_NUMBERS[serde] - 1)) - 1
    if lower is not None and 0 <= lower <= largest:
        return lower, largest if upper is None else min(upper, largest)
    if upper is not None and -largest - 1 <= upper < 0:
        return -largest - 1 if lower is None else max(lower, -largest - 1), upper
    return None, None


def _json_of(key: Any, serde: str) -> Any:
    """The key in the JSON of its serde. Raises StoreError for a value that the serde lacks."""
    if serde == "bytes":
        return serde_of(serde).to_json(key)
    return serde_of(serde).from_json(key)


def _text_of(key: Any, serde: str) -> str:
    return encode_base64url(key) if serde == "bytes" else str(key)


def _options_of_times(
    predicates: Sequence[Predicate], definition: StoreDefinition, given: Mapping[str, str]
) -> dict[str, str]:
    """The bounds of windows' starts, or of sessions' starts and ends; `given` by small letters."""
    bounds: dict[str, int | None]
    if definition.row_type is StoreType.WINDOW:
        bounds = {
            "from": max(_bounds(predicates, WINDOW_START, _ABOVE), default=None),
            "to": min(_bounds(predicates, WINDOW_START, _BELOW), default=None),
        }
        first, last = (
            time_of_text(name, given[name]) if name in given else bound
            for name, bound in bounds.items()
        )
        if first is not None and last is not None and first > last:
            return {}
    elif definition.row_type is StoreType.SESSION:
        bounds = {
            "endFrom": max(_bounds(predicates, SESSION_END, _ABOVE), default=None),
            "startTo": min(_bounds(predicates, SESSION_START, _BELOW), default=None),
        }
    else:
        return {}
    return {name: str(time) for name, time in bounds.items() if time is not None and time >= 0}


def _bounds(predicates: Sequence[Predicate], column: str, names: tuple[str, ...]) -> list[Any]:
    """The times to which comparisons of these names, and equalities, hold the column."""
    of_column = [one for one in predicates if one.column == column]
    return [one.value for one in of_column if one.name in (*names, *_EQUAL)]
