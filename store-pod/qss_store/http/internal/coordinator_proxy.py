"""Passes requests for the coordinator on to the pod with partition 0's active."""

from collections.abc import Awaitable, Callable

import aiohttp
from aiohttp import web

from qss_core.errors import NotActiveError, NotReadyError, UnreachableError
from qss_core.queries.parameters import parse_parameters
from qss_store.http.middleware import BodyPace, read_body
from qss_store.http.responses import forwarded_headers
from qss_store.replicas.pod import Pod
from qss_store.runtime.peer_client import PeerSession, read_answer
from qss_store.runtime.settings import Settings

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_FORWARDED = "Queryable-State-Forwarded"
_PASSED_BACK = ("Content-Type", "Retry-After")


class CoordinatorProxy:
    """Makes handlers that answer if this pod is the coordinator, and else pass the request on."""

    def __init__(self, pod: Pod, session: PeerSession, settings: Settings) -> None:
        """`session` sends the requests that are passed on."""
        self._pod = pod
        self._session = session
        self._settings = settings
        self._pace = BodyPace(total_s=settings.body_deadline_s)

    def handler(self, handler: Handler, *parameters: str) -> Handler:
        """Wraps `handler`, for a path with a {store} and these query parameters."""

        async def handle(request: web.Request) -> web.StreamResponse:
            self._pod.registry.check_store(request.match_info["store"])
            parse_parameters(request.rel_url.raw_query_string, parameters)
            if self._pod.registry.is_active(0):
                with self._pod.registry.until_failover():
                    return await handler(request)
            return await self._pass_on(request)

        return handle

    async def _pass_on(self, request: web.Request) -> web.Response:
        active = self._pod.registry.address(self._pod.registry.configuration(0).active)
        if _FORWARDED in request.headers:
            raise NotActiveError(f"the coordinator is on pod {active.name}", active=active.name)
        if active.ordinal == self._pod.ordinal:
            raise NotReadyError(f"pod {active.name} is opening its replicas: try again")
        body = await read_body(request, self._settings.message_bytes_max, self._pace)
        try:
            async with self._session.request(
                request.method,
                active.changelog + request.raw_path,
                data=body,
                headers={
                    _FORWARDED: "1",
                    "Content-Type": request.content_type,
                    **forwarded_headers(request),
                },
                timeout=aiohttp.ClientTimeout(total=2 * self._settings.finish_timeout_s),
            ) as answer:
                kept = {
                    name: answer.headers[name] for name in _PASSED_BACK if name in answer.headers
                }
                return web.Response(
                    status=answer.status, body=await read_answer(answer), headers=kept
                )
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise UnreachableError(f"the coordinator, pod {active.name}, did not answer") from error
