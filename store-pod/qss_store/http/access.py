"""The middleware that lets a request pass only to whom its route is for."""

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware

from qss_store.access.guard import Guard
from qss_store.access.rights import Requirement, requirement_of
from qss_store.http.middleware import route_of


def access_middlewares(guard: Guard | None) -> list[Middleware]:
    """Asks `guard` before each handler; without one everybody may do everything."""
    if guard is None:
        return []
    # By the matched route and not by the path: no spelling of a path leads around it.
    requirements: dict[str, Requirement] = {}

    @web.middleware
    async def admit(request: web.Request, handler: Handler) -> web.StreamResponse:
        header = request.headers.get(hdrs.AUTHORIZATION)
        route = route_of(request)
        if not guard.passes(header, route):
            requirement = requirements.get(route)
            if requirement is None:
                requirement = requirement_of(route, guard.identities)
                requirements[route] = requirement
            await guard.admit(header, route, requirement, request.remote or "")
        return await handler(request)

    return [admit]
