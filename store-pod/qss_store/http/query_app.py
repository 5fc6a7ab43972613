"""The query port: what readers ask (http-api.md)."""

from aiohttp import web

from qss_store.access.guard import Guard
from qss_store.extensions import NO_EXTENSIONS, Extensions
from qss_store.http import discovery, timed, versions
from qss_store.http.access import access_middlewares
from qss_store.http.browsers import browser_middlewares, callers_of
from qss_store.http.lane import MANY_ROUTE, POINT_ROUTE, Lane
from qss_store.http.large_answers import memory_middlewares
from qss_store.http.listening import LANE
from qss_store.http.openapi import openapi_route
from qss_store.http.point import PointApi
from qss_store.http.queries import QueryApi
from qss_store.http.scans import ScanApi
from qss_store.http.shell import shell_middlewares
from qss_store.http.timed import TimedApi
from qss_store.peers import PeerSession
from qss_store.pod import Pod
from qss_store.reads.peers import PeerReads
from qss_store.reads.reader import Reader
from qss_store.settings import Settings

_DEFAULTS = Settings()


def make_query_app(
    pod: Pod,
    session: PeerSession,
    settings: Settings = _DEFAULTS,
    guard: Guard | None = None,
    extensions: Extensions = NO_EXTENSIONS,
) -> web.Application:
    """The application of the query port; `session` carries what other pods are asked.

    Without a guard everybody may ask. Nothing here writes: who reaches this port and no other one
    can change nothing.
    """
    callers = callers_of(settings, guard)
    reader = Reader(pod, PeerReads(session, settings.peer_requests_max), settings)
    points, scans = PointApi(reader), ScanApi(reader)
    queries = QueryApi(reader, scans, extensions)
    app = web.Application(
        middlewares=[
            *shell_middlewares(pod.metrics, "query"),
            *memory_middlewares(pod.request_memory, settings.write_stall_max_s),
            *browser_middlewares(callers),
            *access_middlewares(guard),
        ]
    )
    of_times = TimedApi(reader, points, scans)
    app[LANE] = Lane(reader, guard, pod.metrics.requests, of_times, callers)
    app.add_routes(
        [
            # First, since the router tries the routes of a path's first words in turn.
            web.get(POINT_ROUTE.replace("{key}", "{key:[^/]*}"), points.get),
            web.get("/state/stores/{store}", scans.get),
            *discovery_routes(pod),
            *timed.routes(of_times),
            *versions.routes(reader, points, scans),
            web.get("/state/count/{store}", queries.count),
            web.post(MANY_ROUTE, queries.get_many),
            web.post("/state/query/{store}", queries.query),
        ]
    )
    return app


def discovery_routes(pod: Pod) -> list[web.RouteDef]:
    """What the internal port serves too: who has what, and the document of this port."""
    return [openapi_route(), *discovery.routes(pod)]
