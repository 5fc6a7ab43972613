"""The writers of a store and its newest batches, from the coordinator's memory and its log."""

from aiohttp import web

from qss_core.errors import NotActiveError, NotReadyError
from qss_core.queries.parameters import (
    BATCHES_PARAMETERS,
    Scope,
    parse_parameters,
    scope_of,
    sequence_after,
)
from qss_core.wire.discovery import StoreBatches
from qss_store.http.content_types import JSON
from qss_store.http.responses import forwarded_headers, json_response
from qss_store.http.status.earlier_batches import EarlierBatches
from qss_store.reads.routing.peer_reads import PeerReads, PeerRequest
from qss_store.replicas.pod import Pod
from qss_store.writes.coordinator_service import CoordinatorService

_TIMEOUT_S = 2.0


class BatchesApi:
    """The coordinator's answer about writers and batches."""

    def __init__(self, pod: Pod, coordinator: CoordinatorService, peers: PeerReads) -> None:
        self._pod = pod
        self._coordinator = coordinator
        self._peers = peers
        self._earlier = EarlierBatches(pod)

    async def batches(self, request: web.Request) -> web.Response:
        """The coordinator's answer, from this pod or passed on once."""
        registry = self._pod.registry
        registry.check_store(request.match_info["store"])
        given = parse_parameters(request.rel_url.raw_query_string, BATCHES_PARAMETERS)
        after = sequence_after(given)
        if registry.is_active(0):
            writers = self._coordinator.writers.report().writers
            recent = self._coordinator.recent.after(0)
            earlier = await self._earlier.after(after, {one.sequence for one in recent})
            recent = tuple(one for one in recent if one.sequence > after)
            return json_response(StoreBatches(writers=writers, batches=recent, earlier=earlier))
        active = registry.address(registry.configuration(0).active)
        if scope_of(given) is Scope.LOCAL:
            raise NotActiveError(f"the coordinator is on pod {active.name}", active=active.name)
        if active.ordinal == self._pod.ordinal:
            raise NotReadyError(f"pod {active.name} is opening its replicas: try again")
        path = request.rel_url.raw_path
        asked = PeerRequest(
            method="GET",
            path=f"{path}?scope=local&after={after}",
            headers=forwarded_headers(request),
        )
        body = await self._peers.read(active, asked, _TIMEOUT_S, None)
        return web.Response(body=body, headers={"Content-Type": JSON})
