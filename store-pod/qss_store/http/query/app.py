"""The query port: what readers ask (http-api.md)."""

from aiohttp import web

from qss_store.access.guard import Guard
from qss_store.http import discovery
from qss_store.http.access import access_middlewares
from qss_store.http.browsers import browser_middlewares, callers_of
from qss_store.http.large_answers import memory_middlewares
from qss_store.http.middleware import shell_middlewares
from qss_store.http.query import timed, versions
from qss_store.http.query.fast_path import MANY_ROUTE, POINT_ROUTE, QueryFastPath
from qss_store.http.query.openapi.document import openapi_route
from qss_store.http.query.point import PointApi
from qss_store.http.query.queries import QueryApi
from qss_store.http.query.scans import ScanApi
from qss_store.http.query.timed import TimedApi
from qss_store.http.server import LANE
from qss_store.reads.context import ReadContext
from qss_store.reads.routing.peer_reads import PeerReads
from qss_store.replicas.pod import Pod
from qss_store.runtime.peer_client import PeerSession
from qss_store.runtime.plugins import NO_EXTENSIONS, Extensions
from qss_store.runtime.settings import Settings

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
    reader = ReadContext(pod, PeerReads(session, settings.peer_requests_max), settings)
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
    app[LANE] = QueryFastPath(reader, guard, pod.metrics.requests, of_times, callers)
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
