"""How answers and requests to other pods are put together, for all handlers."""

from collections.abc import Iterable, Mapping
from urllib.parse import quote_plus

from aiohttp import hdrs, web

from qss_core.wire.messages import encode
from qss_store.http.content_types import JSON


def json_response(message: object) -> web.Response:
    return web.Response(body=encode(message), headers={hdrs.CONTENT_TYPE: JSON})


def encoded_query(parameters: Mapping[str, str]) -> str:
    """The query string of parameters."""
    return "&".join(f"{name}={quote_plus(value)}" for name, value in parameters.items())


def forwarded_headers(request: web.Request, names: Iterable[str] = ()) -> dict[str, str]:
    """The headers that go along when another pod is asked: who asks, and `names`."""
    return {
        name: request.headers[name]
        for name in (hdrs.AUTHORIZATION, *names)
        if name in request.headers
    }


def seconds_text(seconds: float) -> str:
    """A time as a parameter: above 0, however little is left."""
    return f"{max(0.001, seconds):.3f}"
