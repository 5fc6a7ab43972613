"""Refuses requests that foreign web pages send, on a store that asks for no tokens, and lets the
pages of listed origins read answers (CORS).

A web page can send a simple POST to any port that its reader's browser reaches. It can read the
answers, too, if its own host name resolves to the port's address (DNS rebinding). With tokens no
such check is needed: a browser sends no bearer token by itself. A page of a listed origin gets the
headers of CORS on every store, so that it can read the answers to its own token.
"""

from ipaddress import ip_address
from urllib.parse import urlsplit

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware

from qss_core.errors import ForbiddenError
from qss_store.access.token_check import Guard
from qss_store.runtime.settings import Settings

# Public name servers do not answer for names without a dot, nor for names with these endings.
_OWN_ENDINGS = (".localhost", ".svc", ".svc.cluster.local")

# The headers that a page may send beside simple ones, and read beside the body.
_REQUEST_HEADERS = "Authorization, Content-Type, If-None-Match"
_ANSWER_HEADERS = (
    "ETag, Retry-After, Queryable-State-Position, Queryable-State-Partition, "
    "Queryable-State-Served-By, Queryable-State-Sequence, Queryable-State-Cursor"
)
_PREFLIGHT_S = 600  # A browser asks again after this time at the latest.


class Callers:
    """The hosts and origins that a listener accepts besides its own."""

    def __init__(self, hosts: str = "", origins: str = "") -> None:
        """Both are lists with commas; `*.example.org` stands for all names with that ending."""
        self._hosts = _listed(hosts)
        self._origins = _listed(origins)

    def takes_host(self, host: str) -> bool:
        """Whether the host is an address or a name that a foreign page cannot have."""
        try:
            name = (urlsplit(f"//{host}").hostname or "").rstrip(".")
        except ValueError:
            return False
        if "." not in name or name.endswith(_OWN_ENDINGS) or _is_address(name):
            return True
        return any(_is_named(name, one) for one in self._hosts)

    def takes_origin(self, origin: str, host: str) -> bool:
        """Whether a page of this origin may send requests: the own or a listed origin."""
        return origin.rpartition("://")[2] == host or origin.lower() in self._origins

    def check(self, host: str | None, origin: str | None) -> None:
        """Raises ForbiddenError. A request without a Host header does not come from a browser."""
        if host is not None and not self.takes_host(host):
            raise ForbiddenError(
                f"{host[:100]!r} is not a name of this listener: use its address, or name the host "
                "in the setting QSS_ALLOWED_HOSTS"
            )
        if origin is not None and not self.takes_origin(origin, host or ""):
            raise ForbiddenError(
                f"a page of {origin[:100]!r} may not ask this store: name the origin in "
                "spec.access.allowedOrigins, or in the setting QSS_ALLOWED_ORIGINS of its pods"
            )


def callers_of(settings: Settings, guard: Guard | None) -> Callers | None:
    """The callers that the settings name; None if a guard asks for tokens."""
    if guard is not None:
        return None
    return Callers(settings.allowed_hosts, settings.allowed_origins)


def browser_middlewares(callers: Callers | None) -> list[Middleware]:
    """Asks `callers` before each handler; empty if there are no `callers`."""
    if callers is None:
        return []

    @web.middleware
    async def look(request: web.Request, handler: Handler) -> web.StreamResponse:
        callers.check(request.headers.get(hdrs.HOST), request.headers.get(hdrs.ORIGIN))
        return await handler(request)

    return [look]


def preflight_middlewares(settings: Settings) -> list[Middleware]:
    """Answers the question of a browser whether a page of a listed origin may send a request.

    The question has no token, so it is answered before the token is asked for.
    """
    origins = _listed(settings.allowed_origins)
    if not origins:
        return []

    @web.middleware
    async def allow(request: web.Request, handler: Handler) -> web.StreamResponse:
        asks = request.method == hdrs.METH_OPTIONS
        if not (asks and hdrs.ACCESS_CONTROL_REQUEST_METHOD in request.headers):
            return await handler(request)
        if request.headers.get(hdrs.ORIGIN, "").lower() not in origins:
            return await handler(request)
        headers = {
            hdrs.ACCESS_CONTROL_ALLOW_METHODS: "GET, HEAD, POST",
            hdrs.ACCESS_CONTROL_ALLOW_HEADERS: _REQUEST_HEADERS,
            hdrs.ACCESS_CONTROL_MAX_AGE: str(_PREFLIGHT_S),
        }
        return web.Response(status=204, headers=headers)

    return [allow]


def share_answers(app: web.Application, settings: Settings) -> None:
    """Lets pages of listed origins read all answers, failures too; no cookie is sent for them."""
    origins = _listed(settings.allowed_origins)
    if not origins:
        return

    async def share(request: web.Request, response: web.StreamResponse) -> None:
        vary = response.headers.get(hdrs.VARY)
        response.headers[hdrs.VARY] = f"{vary}, {hdrs.ORIGIN}" if vary else hdrs.ORIGIN
        origin = request.headers.get(hdrs.ORIGIN, "")
        if origin.lower() in origins:
            response.headers[hdrs.ACCESS_CONTROL_ALLOW_ORIGIN] = origin
            response.headers[hdrs.ACCESS_CONTROL_EXPOSE_HEADERS] = _ANSWER_HEADERS

    app.on_response_prepare.append(share)


def _listed(text: str) -> frozenset[str]:
    return frozenset(one.strip().lower() for one in text.split(",") if one.strip())


def _is_named(name: str, listed: str) -> bool:
    if listed.startswith("*."):
        return name.endswith(listed[1:])
    return name == listed


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
