"""Lists and deletes a store's writers, for a person. On the internal port."""

from aiohttp import web

from qss_core.queries.parameters import parse_parameters, truth_of
from qss_core.wire.writer_reports import check_writer_name
from qss_store.http.responses import json_response
from qss_store.writes.coordinator_service import CoordinatorService


class WritersApi:
    """The coordinator's answers about writers."""

    def __init__(self, coordination: CoordinatorService) -> None:
        self._coordination = coordination

    async def list_all(self, _: web.Request) -> web.Response:
        """All writers, with the time of each one's last request."""
        return json_response(self._coordination.writers.report())

    async def delete(self, request: web.Request) -> web.Response:
        """Deletes a writer; `force` also deletes it while its run is open."""
        given = parse_parameters(request.rel_url.raw_query_string, ("force",))
        force, name = truth_of("force", given), writer_name(request)
        return json_response(await self._coordination.delete_writer(name, force=force))


def writer_name(request: web.Request) -> str:
    """The {writer} of a path. Raises MalformedRequestError."""
    return check_writer_name(request.match_info["writer"])
