"""The parameters of a GET under `/state/windows`, `/state/sessions` and `/state/versions`.

This module has the parameters that differ from those for keys (`from` and `to` are times here); all
others are those of parameters.py.
"""

from enum import StrEnum

from qss_core.queries.parameters import (
    PARAMETERS,
    PARTITIONS_PARAMETERS,
    POINT_PARAMETERS,
    Parameter,
    one_of,
)
from qss_core.times import Times, time_of_text


class OrderBy(StrEnum):
    """The order of a scan of many keys."""

    KEY = "key"
    TIME = "time"


_TIME = "milliseconds since 1970, RFC 3339, or a date (its midnight, UTC)"
_TEXT = {"type": "string"}
_KEYS_AND_ORDER: dict[str, Parameter] = {
    "keyFrom": Parameter(
        description="The smallest key, inclusive, as the text of its serde.", schema=_TEXT
    ),
    "keyTo": Parameter(
        description="The largest key, inclusive, as the text of its serde.", schema=_TEXT
    ),
    "order": Parameter(
        description="Forward or backward. ANY is ascending.", schema=PARAMETERS["order"].schema
    ),
    "orderBy": Parameter(
        description="`key`: partition by partition, by key and then time. `time`: over all "
        "partitions, by window start or session end and then key; each page costs a scan of the "
        "time range that is left, has up to 10000 rows, and is whole or empty.",
        schema={"type": "string", "enum": [by.value for by in OrderBy], "default": "key"},
    ),
    "times": Parameter(
        description="How times are shown. What RFC 3339 cannot say stays a number.",
        schema={"type": "string", "enum": [times.value for times in Times], "default": "millis"},
    ),
}
OF_WINDOWS: dict[str, Parameter] = {
    **_KEYS_AND_ORDER,
    "from": Parameter(description=f"The first window start, inclusive: {_TIME}.", schema=_TEXT),
    "to": Parameter(description=f"The last window start, inclusive: {_TIME}.", schema=_TEXT),
    "start": Parameter(description=f"Only the window that starts then: {_TIME}.", schema=_TEXT),
}
OF_SESSIONS: dict[str, Parameter] = {
    **_KEYS_AND_ORDER,
    "endFrom": Parameter(
        description=f"Sessions that end then or later, inclusive: {_TIME}.", schema=_TEXT
    ),
    "startTo": Parameter(
        description=f"Sessions that start then or earlier, inclusive: {_TIME}.", schema=_TEXT
    ),
    "start": Parameter(
        description=f"With `end`: only the session of exactly these bounds: {_TIME}.", schema=_TEXT
    ),
    "end": Parameter(
        description=f"With `start`: only the session of exactly these bounds: {_TIME}.",
        schema=_TEXT,
    ),
}
OF_VERSIONS: dict[str, Parameter] = {
    "asOf": Parameter(
        description=f"The version that was valid at this time; without it the latest: {_TIME}.",
        schema=_TEXT,
    ),
    "from": Parameter(
        description=f"Versions that were valid then or later, inclusive: {_TIME}.", schema=_TEXT
    ),
    "to": Parameter(
        description=f"Versions that were valid then or earlier, inclusive: {_TIME}.", schema=_TEXT
    ),
    "order": Parameter(
        description="Oldest or newest first. ANY is descending, as Kafka's.",
        schema=PARAMETERS["order"].schema,
    ),
    "times": _KEYS_AND_ORDER["times"],
}

_PAGED = ("order", "limit", "cursor", "times")
_MANY_KEYS = ("keyFrom", "keyTo", "orderBy", *_PAGED)
WINDOW_PARAMETERS = (*PARTITIONS_PARAMETERS, "from", "to", *_MANY_KEYS)
WINDOW_KEY_PARAMETERS = (*POINT_PARAMETERS, "from", "to", "start", *_PAGED)
SESSION_PARAMETERS = (*PARTITIONS_PARAMETERS, "endFrom", "startTo", *_MANY_KEYS)
SESSION_KEY_PARAMETERS = (*POINT_PARAMETERS, "endFrom", "startTo", "start", "end", *_PAGED)
HISTORY = ("from", "to", "order", "limit", "cursor")  # Each asks for a history, not one version.
VERSION_PARAMETERS = (*POINT_PARAMETERS, "asOf", *HISTORY, "times")


def time_parameter(name: str, parameters: dict[str, str]) -> int | None:
    """A time in milliseconds; None if it is absent. Raises MalformedRequestError."""
    return time_of_text(name, parameters[name]) if name in parameters else None


def times_of(parameters: dict[str, str]) -> Times:
    """The format of times in the answer."""
    return one_of(Times, "times", parameters) or Times.MILLIS


def order_by_of(parameters: dict[str, str]) -> OrderBy:
    """The order of the rows."""
    return one_of(OrderBy, "orderBy", parameters) or OrderBy.KEY
