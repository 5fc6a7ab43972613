"""Parses the options of a read that choose rows: keys, times, an index."""

from collections.abc import Mapping
from typing import Any

from qss_core.errors import MalformedRequestError, RangeReversedError, StoreError
from qss_core.model import StoreDefinition, StoreType
from qss_core.serdes.json import json_or_text, parse_json
from qss_core.serdes.registry import serde_of
from qss_core.times import time_of_text
from qss_spark.options import BOUND_OPTIONS, KEYS_MAX

# By the store's type; in a Window store from and to are times.
_BOUNDS: dict[StoreType, tuple[str, ...]] = {
    StoreType.KEY_VALUE: ("key", "keys", "prefix", "from", "to"),
    StoreType.CUSTOM: ("key", "keys", "prefix", "from", "to", "index"),
    StoreType.WINDOW: ("key", "keys", "keyFrom", "keyTo", "from", "to"),
    StoreType.SESSION: ("key", "keys", "keyFrom", "keyTo", "endFrom", "startTo"),
}
_KEYS = ("key", "keyFrom", "keyTo", "prefix")


def bounds_of(options: Mapping[str, str], definition: StoreDefinition) -> dict[str, Any]:
    """The given bounds: keys as the JSON of their type, times in milliseconds.

    With an index, from and to are its keys, as JSON or text. Raises MalformedRequestError for
    options that cannot be combined, and RangeReversedError.
    """
    bounds = _parsed(options, definition)
    _check_ways(bounds, definition)
    if "index" not in bounds:
        _check_range(bounds, definition)
    return bounds


def _parsed(options: Mapping[str, str], definition: StoreDefinition) -> dict[str, Any]:
    known = _BOUNDS[definition.type]
    # Spark may give names in lower case.
    found = {name.lower(): text for name, text in options.items()}
    given = {name: found[name.lower()] for name in BOUND_OPTIONS if name.lower() in found}
    if unknown := set(given) - set(known):
        raise MalformedRequestError(
            f"option {min(unknown)!r} chooses no rows of a {definition.type} store: it has "
            f"{', '.join(known)}"
        )
    return {name: _value(name, text, given, definition) for name, text in given.items()}


def _value(name: str, text: str, given: Mapping[str, str], definition: StoreDefinition) -> Any:
    is_of_keys = definition.row_type is StoreType.KEY_VALUE
    if name == "index":
        return text
    if name == "keys":
        return _keys(text, definition)
    if "index" in given and name in ("from", "to"):
        return json_or_text(text)
    if name not in _KEYS and not is_of_keys:
        return time_of_text(name, text)
    serde = serde_of(definition.key_serde)
    return serde.to_json(serde.decode(serde.key_from_text(text)))


def _keys(text: str, definition: StoreDefinition) -> list[Any]:
    """The keys of a JSON array, each of them once."""
    try:
        keys = parse_json(text)
    except StoreError:
        keys = None
    if not isinstance(keys, list):
        raise MalformedRequestError(
            f'keys is a JSON array of keys, e.g. ["a", "b"], not {text[:80]!r}; one key is key'
        )
    if len(keys) > KEYS_MAX:
        raise MalformedRequestError(
            f"keys has {len(keys)} keys, and a read takes {KEYS_MAX}: read a range, or join the "
            "store with a DataFrame of the keys"
        )
    serde = serde_of(definition.key_serde)
    stored = {serde.encode(serde.from_json(key)): key for key in keys}
    return list(stored.values())


def _range_names(definition: StoreDefinition) -> tuple[str, str]:
    """The options of a range of keys."""
    if definition.row_type is StoreType.KEY_VALUE:
        return "from", "to"
    return "keyFrom", "keyTo"


def _check_ways(bounds: Mapping[str, Any], definition: StoreDefinition) -> None:
    ranged = _range_names(definition)
    ways = [name in bounds for name in ("key", "keys", "prefix")]
    ways.append(bool({*ranged, "index"} & set(bounds)))
    if sum(ways) > 1:
        raise MalformedRequestError(
            f"give one of key, keys, prefix, or {' and '.join(ranged)}"
            + (" (of an index)" if "index" in bounds else "")
        )


def _check_range(bounds: Mapping[str, Any], definition: StoreDefinition) -> None:
    """Raises for a reversed range in the driver: a failing task would be repeated."""
    first, last = _range_names(definition)
    lower, upper = bounds.get(first), bounds.get(last)
    if lower is None or upper is None:
        return
    serde = serde_of(definition.key_serde)
    if serde.encode(serde.from_json(lower)) > serde.encode(serde.from_json(upper)):
        raise RangeReversedError(
            f"{first} {lower!r} lies above {last} {upper!r}, by serialized bytes"
        )
