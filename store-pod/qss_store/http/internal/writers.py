"""Who writes a store, for a person: the list, and deleting one of them. On the internal port."""

from aiohttp import web

from qss_core.errors import MalformedRequestError
from qss_core.queries.parameters import parse_parameters
from qss_core.wire.messages import encode
from qss_core.wire.writer_reports import check_writer_name
from qss_store.http.internal.coordinator_proxy import CoordinatorProxy
from qss_store.replicas.pod import Pod
from qss_store.runtime.peer_client import PeerSession
from qss_store.runtime.settings import Settings
from qss_store.writes.coordinator_service import CoordinatorService

WRITERS_ROUTE = "/changelog/stores/{store}/writers"
_BOOLEANS = {"true": True, "false": False}


def writer_routes(
    pod: Pod, coordination: CoordinatorService, session: PeerSession, settings: Settings
) -> list[web.RouteDef]:
    """Both paths; any pod is asked, the coordinator answers."""

    async def list_all(_: web.Request) -> web.Response:
        return _json(coordination.writers.report())

    async def delete(request: web.Request) -> web.Response:
        given = parse_parameters(request.rel_url.raw_query_string, ("force",))
        text = given.get("force", "false")
        if text not in _BOOLEANS:
            raise MalformedRequestError(f"force is true or false, not {text[:40]!r}")
        name = writer_name(request)
        return _json(await coordination.delete_writer(name, force=_BOOLEANS[text]))

    coordinated = CoordinatorProxy(pod, session, settings).handler
    return [
        web.get(WRITERS_ROUTE, coordinated(list_all)),
        web.delete(WRITERS_ROUTE + "/{writer}", coordinated(delete, "force")),
    ]


def writer_name(request: web.Request) -> str:
    """The {writer} of a path. Raises MalformedRequestError."""
    return check_writer_name(request.match_info["writer"])


def _json(message: object) -> web.Response:
    return web.Response(body=encode(message), content_type="application/json")
