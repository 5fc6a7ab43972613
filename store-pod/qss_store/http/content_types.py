"""Chooses the content type of an answer by the request's `Accept` header."""

import re
from functools import lru_cache

from aiohttp import hdrs, web

from qss_core.errors import NotAcceptableError

JSON = "application/json"
NDJSON = "application/x-ndjson"
ARROW = "application/vnd.apache.arrow.stream"
CSV = "text/csv"
CSV_WITH_HEADER = "text/csv; charset=utf-8; header=present"  # RFC 4180.
CURSOR_HEADER = "Queryable-State-Cursor"  # Of a page in CSV.
OCTETS = "application/octet-stream"
_WEIGHT = re.compile(r"q=(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)")


def negotiate(request: web.Request, offered: tuple[str, ...]) -> str:
    """The offered type that the client prefers; the first one if it has no preference.

    Raises NotAcceptableError if the client accepts none of them.
    """
    accept = request.headers.get(hdrs.ACCEPT)
    if accept is None or accept == "*/*":
        return offered[0]
    best = _best(accept, offered)
    if best is None:
        raise NotAcceptableError(
            f"{accept[:200]!r} is not served here: accept {' or '.join(offered)}",
            offered=list(offered),
        )
    return best


@lru_cache(maxsize=256)
def _best(accept: str, offered: tuple[str, ...]) -> str | None:
    weights = [_weight_of(media, accept) for media in offered]
    heaviest = max(weights)
    return offered[weights.index(heaviest)] if heaviest > 0 else None


def _weight_of(media: str, accept: str) -> float:
    """The weight of the most specific matching range; 0 if no range matches."""
    ranges = {media: 2, media.partition("/")[0] + "/*": 1, "*/*": 0}
    found, weight = -1, 0.0
    for part in accept.split(","):
        name, *parameters = (piece.strip().lower() for piece in part.split(";"))
        exactness = ranges.get(name, -1)
        if exactness > found:
            found = exactness
            matches = (_WEIGHT.fullmatch(parameter) for parameter in parameters)
            weight = next((float(match[1]) for match in matches if match), 1.0)
    return weight
