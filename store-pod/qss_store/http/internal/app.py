"""Makes the application of the internal port."""

from aiohttp import web

from qss_store.access.token_check import Guard
from qss_store.http.access import access_middlewares
from qss_store.http.browsers import browser_middlewares, callers_of
from qss_store.http.discovery import DiscoveryApi
from qss_store.http.internal.handlers import InternalApi
from qss_store.http.internal.kept_work import KeptWork
from qss_store.http.internal.replication import ReplicationApi
from qss_store.http.internal.routes import INTERNAL_ROUTES, InternalHandlers
from qss_store.http.internal.writers import WritersApi
from qss_store.http.large_answers import memory_middlewares
from qss_store.http.middleware import shell_middlewares
from qss_store.http.query.openapi.document import DocumentApi
from qss_store.http.query.routes import QUERY_ROUTES
from qss_store.http.routes import add_routes, callers_by_path
from qss_store.runtime.peer_client import PeerSession
from qss_store.writes.pod_services import PodServices


def make_internal_app(
    services: PodServices, session: PeerSession, guard: Guard | None = None
) -> web.Application:
    """The application; `session` sends requests to other pods.

    Without a guard every request is admitted.
    """
    pod, settings, kept = services.pod, services.settings, KeptWork()
    handlers = InternalHandlers(
        discovery=DiscoveryApi(pod),
        document=DocumentApi(QUERY_ROUTES),
        internal=InternalApi(services, session, kept),
        replication=ReplicationApi(
            services.log_receiver, services.snapshots, settings, pod.metrics.replication, kept
        ),
        writers=WritersApi(services.coordinator),
    )
    app = web.Application(
        middlewares=[
            *shell_middlewares(pod.metrics, pod.clock, "internal"),
            *memory_middlewares(pod.request_memory, settings.write_stall_max_s),
            *browser_middlewares(callers_of(settings, guard)),
            *access_middlewares(guard, callers_by_path(INTERNAL_ROUTES)),
        ]
    )
    add_routes(app, handlers, INTERNAL_ROUTES)
    app.on_cleanup.append(kept.end)
    return app
