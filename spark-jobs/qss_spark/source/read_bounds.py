"""Parses the options of a read that choose rows: keys, times, an index."""

from collections.abc import Mapping
from typing import Any

from qss_core.errors import MalformedRequestError, RangeReversedError
from qss_core.model import StoreDefinition, StoreType
from qss_core.serdes.json import json_or_text
from qss_core.serdes.registry import serde_of
from qss_core.times import time_of_text
from qss_spark.options import BOUND_OPTIONS

# By the store's type; in a Window store from and to are times.
_BOUNDS: dict[StoreType, tuple[str, ...]] = {
    StoreType.KEY_VALUE: ("key", "prefix", "from", "to"),
    StoreType.CUSTOM: ("key", "prefix", "from", "to", "index"),
    StoreType.WINDOW: ("key", "keyFrom", "keyTo", "from", "to"),
    StoreType.SESSION: ("key", "keyFrom", "keyTo", "endFrom", "startTo"),
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
    if "index" in given and name in ("from", "to"):
        return json_or_text(text)
    if name not in _KEYS and not is_of_keys:
        return time_of_text(name, text)
    serde = serde_of(definition.key_serde)
    return serde.to_json(serde.decode(serde.key_from_text(text)))


def _range_names(definition: StoreDefinition) -> tuple[str, str]:
    """The options of a range of keys."""
    if definition.row_type is StoreType.KEY_VALUE:
        return "from", "to"
    return "keyFrom", "keyTo"


def _check_ways(bounds: Mapping[str, Any], definition: StoreDefinition) -> None:
    ranged = _range_names(definition)
    ways = ["key" in bounds, "prefix" in bounds, bool({*ranged, "index"} & set(bounds))]
    if sum(ways) > 1:
        raise MalformedRequestError(
            f"give one of key, prefix, or {' and '.join(ranged)}"
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
