"""The middleware that admits requests by their token and the route's right."""

from collections.abc import Mapping

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware

from qss_store.access.rights import Caller, requirement_of
from qss_store.access.token_check import Guard
from qss_store.http.middleware import route_of


def access_middlewares(guard: Guard | None, callers: Mapping[str, Caller]) -> list[Middleware]:
    """Asks `guard` before each handler of `callers`; without a guard every request is admitted."""
    if guard is None:
        return []
    # The requirement belongs to the matched route, so another spelling of a path cannot avoid it.
    requirements = {
        route: requirement_of(caller, guard.identities) for route, caller in callers.items()
    }

    @web.middleware
    async def admit(request: web.Request, handler: Handler) -> web.StreamResponse:
        header = request.headers.get(hdrs.AUTHORIZATION)
        route = route_of(request)
        requirement = requirements[route]
        if requirement is not None and not guard.passes(header, route):
            await guard.admit(header, route, requirement, request.remote or "")
        return await handler(request)

    return [admit]
