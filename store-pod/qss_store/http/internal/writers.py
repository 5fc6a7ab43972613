"""Lists and deletes a store's writers, for a person. On the internal port."""

from aiohttp import web

from qss_core.errors import MalformedRequestError
from qss_core.queries.parameters import parse_parameters
from qss_core.wire.messages import encode
from qss_core.wire.writer_reports import check_writer_name
from qss_store.writes.coordinator_service import CoordinatorService

_BOOLEANS = {"true": True, "false": False}


class WritersApi:
    """The coordinator's answers about writers."""

    def __init__(self, coordination: CoordinatorService) -> None:
        self._coordination = coordination

    async def list_all(self, _: web.Request) -> web.Response:
        """All writers, with the time of each one's last request."""
        return _json(self._coordination.writers.report())

    async def delete(self, request: web.Request) -> web.Response:
        """Deletes a writer; `force` also deletes it while its run is open."""
        given = parse_parameters(request.rel_url.raw_query_string, ("force",))
        text = given.get("force", "false")
        if text not in _BOOLEANS:
            raise MalformedRequestError(f"force is true or false, not {text[:40]!r}")
        name = writer_name(request)
        return _json(await self._coordination.delete_writer(name, force=_BOOLEANS[text]))


def writer_name(request: web.Request) -> str:
    """The {writer} of a path. Raises MalformedRequestError."""
    return check_writer_name(request.match_info["writer"])


def _json(message: object) -> web.Response:
    return web.Response(body=encode(message), content_type="application/json")
