"""Builds answers, and parts of requests to other pods."""

from collections.abc import Iterable, Mapping
from urllib.parse import quote_plus

from aiohttp import hdrs, web

from qss_core.wire.messages import encode
from qss_store.http.content_types import JSON


def json_response(message: object) -> web.Response:
    return web.Response(body=encode(message), headers={hdrs.CONTENT_TYPE: JSON})


def encoded_query(parameters: Mapping[str, str]) -> str:
    return "&".join(f"{name}={quote_plus(value)}" for name, value in parameters.items())


def forwarded_headers(request: web.Request, names: Iterable[str] = ()) -> dict[str, str]:
    """The headers to forward to another pod: the caller's token and `names`."""
    return {
        name: request.headers[name]
        for name in (hdrs.AUTHORIZATION, *names)
        if name in request.headers
    }


def seconds_text(seconds: float) -> str:
    """A parameter's text for a time; at least 0.001, so that it is never 0."""
    return f"{max(0.001, seconds):.3f}"
