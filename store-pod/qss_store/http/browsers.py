"""Refuses requests that foreign web pages send, on a store that asks for no tokens.

A web page can send a simple POST to any port that its reader's browser reaches. It can read the
answers, too, if its own host name resolves to the port's address (DNS rebinding). With tokens no
such check is needed: a browser sends no bearer token by itself.
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
                f"a page of {origin[:100]!r} may not ask this store: name the origin in the "
                "setting QSS_ALLOWED_ORIGINS"
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
