"""Listening addresses and their connections: limits, refusals, and the lane for plain requests."""

import asyncio
import ssl
from dataclasses import dataclass
from typing import Any, Protocol, cast

from aiohttp import hdrs, web
from aiohttp.http_exceptions import LineTooLong

from qss_core.errors import MalformedRequestError, OverloadedError, StoreError, TooLargeError
from qss_core.wire import encode, problem_of
from qss_store.http.shell import PROBLEM_JSON, problem_response, unexpected


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerLimits:
    """What one listener takes from its clients."""

    # Also how long a client may take for a request's head.
    keepalive_timeout_s: float = 30.0
    lingering_time_s: float = 1.0
    line_bytes_max: int = 32 * 1024
    field_bytes_max: int = 32 * 1024
    shutdown_timeout_s: float = 5.0
    handshake_timeout_s: float = 10.0


LISTENER_LIMITS = ListenerLimits()
CONNECTIONS_MAX = 4096


class FastLane(Protocol):
    """What answers plain requests at once; whoever fills LANE has one."""

    def frame(self, data: bytes) -> Any:
        """The request in `data`, if it is one of the lane's, whole, with nothing behind it."""

    def answer(self, frame: Any) -> bytes | None:
        """All bytes of the answer; None where the ordinary way has to give it."""


LANE = web.AppKey("LANE", FastLane)


class Connection(web.RequestHandler):
    """One connection. What cannot be parsed as HTTP is answered like any other failure.

    With a lane, requests that it takes are answered before aiohttp sees them, which is sound only
    between two requests: when everything that came before was parsed to its end, and answered.
    """

    __slots__ = ("_is_parsed", "_lane")

    def __init__(self, server: web.Server, lane: FastLane | None, **options: Any) -> None:
        """A connection of `server`."""
        super().__init__(server, **options)
        self._lane = lane
        self._is_parsed = True  # Whether aiohttp's parser stands before a request's first byte.

    def data_received(self, data: bytes) -> None:
        """Answers by the lane, or hands over to aiohttp."""
        lane = self._lane
        if lane is None or not data:  # aiohttp calls itself with nothing.
            super().data_received(data)
            return
        frame = lane.frame(data)
        if frame is not None and self._is_parsed and self._is_idle():
            answer = lane.answer(frame)
            if answer is not None:
                self._next_keepalive_close_time = self._loop.time() + self._keepalive_timeout
                assert self.transport is not None, "data came from it"
                self.transport.write(answer)
                return
        seen = self._request_count
        super().data_received(data)
        if frame is None or not self._is_parsed:
            # A head that ends with the data leaves nothing behind it.
            self._is_parsed = self._request_count > seen and data.endswith(b"\r\n\r\n")

    def _is_idle(self) -> bool:
        """Whether the handler waits for a request, and the client takes its answers."""
        waiter = self._waiter
        # Before its first request the handler may not have begun to wait.
        waits = self._request_count == 0 if waiter is None else not waiter.done()
        blocked = self._paused or self._upgraded or self._close or self._force_close
        return waits and not blocked

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 aiohttp's signature.
    ) -> web.StreamResponse:
        """The answer to a request that no handler saw, or that broke one."""
        if request.writer.output_size > 0:
            raise ConnectionError("the answer broke off")
        failure: StoreError
        if isinstance(exc, LineTooLong):
            failure = TooLargeError(
                "the request's line, or a header, is longer than this server reads: a long key "
                "goes into the body of POST /state/get/STORE or /state/query/STORE"
            )
        elif status < 500:
            failure = MalformedRequestError("not an HTTP request that this server understands")
        else:
            assert isinstance(exc, Exception | None)
            failure = unexpected(exc or StoreError("no exception"), "a connection")
        response = problem_response(failure)
        response.force_close()
        return response


class _Refusal(asyncio.Protocol):
    """A connection over the limit: told so, and closed."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        body = encode(problem_of(OverloadedError("too many connections: use fewer, or wait")))
        head = (
            f"HTTP/1.1 {OverloadedError.http_status} Too Many Requests\r\n"
            f"Content-Type: {PROBLEM_JSON}\r\nContent-Length: {len(body)}\r\n"
            "Retry-After: 1\r\nConnection: close\r\n\r\n"
        )
        plain = cast(asyncio.Transport, transport)  # uvloop's is no subclass.
        plain.write(head.encode() + body)
        plain.close()


class _Site(web.BaseSite):
    """A listening address with a limit of connections."""

    __slots__ = ("_connections_max", "_host", "_lane", "_limits", "_port", "_tls")

    def __init__(
        self,
        runner: web.AppRunner,
        host: str,
        port: int,
        connections_max: int,
        limits: ListenerLimits,
        tls: ssl.SSLContext | None,
        lane: FastLane | None,
    ) -> None:
        super().__init__(runner)
        self._lane = lane
        self._tls = tls
        self._host = host
        self._port = port
        self._connections_max = connections_max
        self._limits = limits

    @property
    def name(self) -> str:
        return f"{'http' if self._tls is None else 'https'}://{self._host}:{self._port}"

    async def start(self) -> None:
        await super().start()
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            self._connect,
            self._host,
            self._port,
            ssl=self._tls,
            ssl_handshake_timeout=None if self._tls is None else self._limits.handshake_timeout_s,
        )

    def _connect(self) -> asyncio.Protocol:
        server = self._runner.server
        assert server is not None, "the runner was set up before"
        limits = self._limits
        if len(server.connections) >= self._connections_max:
            return _Refusal()
        return Connection(
            server,
            self._lane,
            loop=asyncio.get_running_loop(),
            access_log=None,
            keepalive_timeout=limits.keepalive_timeout_s,
            lingering_time=limits.lingering_time_s,
            auto_decompress=False,
            max_line_size=limits.line_bytes_max,
            max_field_size=limits.field_bytes_max,
        )


async def make_runner(
    app: web.Application,
    host: str,
    port: int,
    connections_max: int = CONNECTIONS_MAX,
    limits: ListenerLimits = LISTENER_LIMITS,
    tls: ssl.SSLContext | None = None,
) -> web.AppRunner:
    """Listens, and serves until its maker calls `cleanup`; for port 0 the system chooses one.

    With `tls` it speaks https. What serves is not told: the lane sends no `Server` either.
    """
    app.on_response_prepare.append(_without_server)
    runner = web.AppRunner(
        app, handler_cancellation=True, shutdown_timeout=limits.shutdown_timeout_s
    )
    await runner.setup()
    try:
        await _Site(runner, host, port, connections_max, limits, tls, app.get(LANE)).start()
    except BaseException:
        await runner.cleanup()
        raise
    return runner


async def _without_server(_: web.Request, response: web.StreamResponse) -> None:
    response.headers.popall(hdrs.SERVER, None)


def port_of(runner: web.AppRunner) -> int:
    """The port that a runner listens on."""
    port: int = runner.addresses[0][1]
    return port
