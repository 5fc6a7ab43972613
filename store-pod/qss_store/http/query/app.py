"""Makes the application of the query port, for readers (docs/reads.md)."""

from aiohttp import web

from qss_store.access.token_check import Guard
from qss_store.http.access import access_middlewares
from qss_store.http.browsers import (
    browser_middlewares,
    callers_of,
    preflight_middlewares,
    share_answers,
)
from qss_store.http.console.files import console_files
from qss_store.http.discovery import DiscoveryApi
from qss_store.http.large_answers import memory_middlewares
from qss_store.http.middleware import shell_middlewares
from qss_store.http.query.fast_path import QueryFastPath
from qss_store.http.query.openapi.document import DocumentApi
from qss_store.http.query.point import PointApi
from qss_store.http.query.queries import QueryApi
from qss_store.http.query.routes import CONSOLE_ROUTES, QUERY_ROUTES, QueryHandlers
from qss_store.http.query.scans import ScanApi
from qss_store.http.query.timed import TimedApi
from qss_store.http.query.versions import VersionApi
from qss_store.http.routes import add_routes, callers_by_path
from qss_store.http.server import FAST_PATH
from qss_store.http.status.batches import BatchesApi
from qss_store.http.status.replicas import ReplicasApi
from qss_store.reads.context import ReadContext
from qss_store.reads.routing.peer_reads import PeerReads
from qss_store.runtime.peer_client import PeerSession
from qss_store.writes.pod_services import PodServices


def make_query_app(
    services: PodServices, session: PeerSession, guard: Guard | None = None
) -> web.Application:
    """The application; `session` sends requests to other pods.

    Without a guard every request is admitted. No route of this port changes anything.
    """
    pod, settings = services.pod, services.settings
    callers = callers_of(settings, guard)
    peers = PeerReads(session, settings.peer_requests_max, pod.clock)
    reader = ReadContext(pod, peers, settings)
    points, scans = PointApi(reader), ScanApi(reader)
    handlers = QueryHandlers(
        discovery=DiscoveryApi(pod),
        document=DocumentApi(QUERY_ROUTES),
        points=points,
        scans=scans,
        timed=TimedApi(reader, points, scans),
        versions=VersionApi(reader, points, scans),
        queries=QueryApi(reader, scans, services.extensions),
        replicas=ReplicasApi(pod, peers, services.operator_word),
        batches=BatchesApi(pod, services.coordinator, peers),
    )
    routes = QUERY_ROUTES
    if settings.console:
        console_files()  # Reads them before the first request.
        routes += CONSOLE_ROUTES
    app = web.Application(
        middlewares=[
            *shell_middlewares(pod.metrics, pod.clock, "query"),
            *memory_middlewares(pod.request_memory, settings.write_stall_max_s),
            *preflight_middlewares(settings),
            *browser_middlewares(callers),
            *access_middlewares(guard, callers_by_path(routes)),
        ]
    )
    app[FAST_PATH] = QueryFastPath(
        reader, guard, pod.metrics.requests, scans, handlers.timed, callers
    )
    share_answers(app, settings)
    add_routes(app, handlers, routes)
    return app
