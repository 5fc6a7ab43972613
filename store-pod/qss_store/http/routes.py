"""The type of a route: path, handler, caller and OpenAPI operation.

Each port has one table of routes: its routing and rights are made of it. Of the query port's table
the OpenAPI document is made, too.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Generic, TypeVar

from aiohttp import web

from qss_core.queries.parameters import PARAMETERS, Parameter
from qss_store.access.rights import NO_ROUTE, Caller

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Api = TypeVar("Api", contravariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A route's summary, parameters and body, and its answers' schemas by media type."""

    summary: str
    answers: dict[str, dict[str, Any]]
    parameters: tuple[str, ...] = ()
    described: Mapping[str, Parameter] = field(default_factory=lambda: PARAMETERS)
    body: str | None = None
    headers: dict[str, str] | None = None
    statuses: tuple[int, ...] = (400, 404, 503)


class NotInDocument(Enum):
    """The reasons why a route of the query port has no operation in the OpenAPI document."""

    FOR_BROWSERS = auto()  # Pages and their files: no program calls the route.


@dataclass(frozen=True, slots=True, kw_only=True)
class Route(Generic[Api]):
    """One path and method; `handler` picks the handler from the port's handlers."""

    # {store}, {key} and other parameters match up to the next slash, {file} matches all the rest.
    path: str
    caller: Caller
    handler: Callable[[Api], Handler]
    method: str = "GET"
    operation: Operation | NotInDocument | None = None  # Each route of the query port has one.


def add_routes(app: web.Application, api: Api, routes: Iterable[Route[Api]]) -> None:
    """Adds the routes; the router tries paths with the same beginning in this order."""
    for route in routes:
        path = route.path.replace("{key}", "{key:[^/]*}").replace("{file}", "{file:.*}")
        handler = route.handler(api)
        if route.method == "GET":
            app.router.add_get(path, handler)  # Also HEAD.
        else:
            app.router.add_route(route.method, path, handler)


def callers_by_path(routes: Iterable[Route[Any]]) -> dict[str, Caller]:
    """The caller of each path, for all its methods."""
    callers = {NO_ROUTE: Caller.ANYBODY}
    for route in routes:
        held = callers.setdefault(route.path, route.caller)
        assert held is route.caller, f"{route.path} is for one kind of callers"
    return callers
