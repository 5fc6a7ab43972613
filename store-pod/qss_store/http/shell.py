"""What every listener does alike: problems, metrics, limits of connections and of bodies.

A failure leaves as RFC 9457 `application/problem+json`. What nobody expected leaves as a 500
without its text, and is logged once, without its text too: it could quote a key or a value.
"""

import asyncio
import logging
import math
import ssl
import time
import traceback
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, cast

import aiohttp
from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware

from qss_core.errors import (
    HttpVersionError,
    MalformedRequestError,
    MethodNotAllowedError,
    OverloadedError,
    PathNotFoundError,
    RequestTimeoutError,
    StoreError,
    TooLargeError,
    UnauthenticatedError,
    UnsupportedMediaError,
)
from qss_core.wire import decode, encode, problem_of
from qss_store.access.rights import NO_ROUTE
from qss_store.metrics import Metrics, RequestMetrics

_LOG = logging.getLogger(__name__)

JSON = "application/json"
PROBLEM_JSON = "application/problem+json"
_VERSIONS = (aiohttp.HttpVersion11, aiohttp.HttpVersion10)
_STATUS_WHEN_GONE = 499  # The client went away before there was an answer.

Message = TypeVar("Message")


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


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyPace:
    """How slowly a body may come: in `total_s`, and after `grace_s` at a minimum rate."""

    total_s: float = 30.0
    grace_s: float = 2.0
    bytes_per_s_min: int = 64 * 1024


BODY_PACE = BodyPace()


# --- Problems


def problem_response(error: StoreError) -> web.Response:
    """The answer that tells of a failure."""
    problem = problem_of(error)
    headers = {"Content-Type": PROBLEM_JSON}
    if problem.retry_after_ms is not None:
        headers["Retry-After"] = str(max(1, math.ceil(problem.retry_after_ms / 1000)))
    if isinstance(error, UnauthenticatedError):
        headers["WWW-Authenticate"] = "Bearer"
    if "allow" in error.details:
        headers["Allow"] = error.details["allow"]
    return web.Response(status=problem.status, body=encode(problem), headers=headers)


def _error_of_http(error: web.HTTPException, request: web.Request) -> StoreError:
    """Ours for one of aiohttp's own refusals."""
    if isinstance(error, web.HTTPNotFound):
        return PathNotFoundError(
            f"there is no {request.path[:200]}: the paths are in /openapi.json; in a key, / is %2F"
        )
    if isinstance(error, web.HTTPMethodNotAllowed):
        allow = error.headers.get("Allow", "")
        return MethodNotAllowedError(f"{request.method} is not allowed here: {allow}", allow=allow)
    if isinstance(error, web.HTTPRequestEntityTooLarge):
        return TooLargeError("the body is too large")
    return MalformedRequestError(f"the request was refused: {error.reason}")


def _unexpected(error: Exception, what: str) -> StoreError:
    frames = "".join(traceback.format_tb(error.__traceback__))
    _LOG.error("%s failed with %s:\n%s", what, type(error).__name__, frames)
    return StoreError("the pod failed to answer; its log says where")


# --- Middlewares


def shell_middlewares(metrics: Metrics, listener: str) -> list[Middleware]:
    """Turns failures into problems, and counts; `listener` is its label in the metrics."""
    requests = metrics.requests

    @web.middleware
    async def answer(request: web.Request, handler: Handler) -> web.StreamResponse:
        started = time.perf_counter()
        status = _STATUS_WHEN_GONE
        response: web.StreamResponse | None = None
        try:
            response = await _answer(request, handler)
            status = response.status
        finally:
            requests.seen(listener, route_of(request), status, time.perf_counter() - started)
            _count(requests, request, response)
        return response

    return [answer]


async def _answer(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        _check_version(request)
        return await handler(request)
    except StoreError as error:
        failure = error
    except web.HTTPException as error:
        failure = _error_of_http(error, request)
    except ConnectionError:
        raise  # The client went away.
    except Exception as error:  # noqa: BLE001 the top of a request.
        failure = _unexpected(error, f"{request.method} {route_of(request)}")
    if request.writer.output_size > 0:
        # An answer has begun and cannot be taken back: the client sees it cut off.
        raise ConnectionError("the answer broke off")
    response = problem_response(failure)
    if isinstance(failure, RequestTimeoutError | TooLargeError | HttpVersionError):
        response.force_close()
    return response


def _check_version(request: web.Request) -> None:
    if request.version not in _VERSIONS:
        raise HttpVersionError("this server speaks HTTP/1.1 and HTTP/1.0")


def route_of(request: web.Request) -> str:
    """The template of the request's path, which holds no key."""
    resource = request.match_info.route.resource
    return resource.canonical if resource is not None else NO_ROUTE


def _count(
    metrics: RequestMetrics,
    request: web.Request,
    response: web.StreamResponse | None,
) -> None:
    """The bytes that came and went."""
    if request.body_exists:
        metrics.bytes_in += request.content.total_bytes
    # Not isinstance, which is slow for aiohttp's classes.
    if type(response) is web.Response:
        body = response.body
        metrics.bytes_out += len(body) if type(body) is bytes else 0
    elif response is not None:
        metrics.bytes_out += response.body_length


# --- Bodies


async def read_body(request: web.Request, limit: int, pace: BodyPace = BODY_PACE) -> bytes:
    """The whole body. Raises TooLargeError, RequestTimeoutError, UnsupportedMediaError."""
    encoding = request.headers.get(hdrs.CONTENT_ENCODING, "identity")
    if encoding.lower() != "identity":
        raise UnsupportedMediaError(f"a body in {encoding[:40]!r} is not taken: send it plain")
    announced = request.content_length
    if announced is not None and announced > limit:
        raise _body_too_large(limit)
    if not request.body_exists:
        return b""
    if request.content.is_eof() and request.content.total_bytes <= limit:
        return request.content.read_nowait()  # It came along with the head.
    chunks: list[bytes] = []
    received = 0
    started = asyncio.get_running_loop().time()
    try:
        async with asyncio.timeout_at(started + min(pace.total_s, pace.grace_s)) as deadline:
            while chunk := await request.content.readany():
                received += len(chunk)
                if received > limit:
                    raise _body_too_large(limit)
                chunks.append(chunk)
                earned_s = pace.grace_s + received / pace.bytes_per_s_min
                deadline.reschedule(started + min(pace.total_s, earned_s))
    except TimeoutError as error:
        raise RequestTimeoutError(
            f"the body came too slowly: {received} bytes; send at least {pace.bytes_per_s_min} "
            f"bytes a second, all within {pace.total_s:g} s"
        ) from error
    return b"".join(chunks)


async def read_json(
    request: web.Request, limit: int, kind: type[Message], pace: BodyPace = BODY_PACE
) -> Message:
    """The message in the body; MalformedRequestError says what is wrong with it."""
    return decode(await read_body(request, limit, pace), kind)


def _body_too_large(limit: int) -> TooLargeError:
    return TooLargeError(f"the body is larger than {limit} bytes: send it in parts", limit=limit)


# --- Connections


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
        return waits and not self._messages and not blocked

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
        if status < 500:
            failure = MalformedRequestError("not an HTTP request that this server understands")
        else:
            assert isinstance(exc, Exception | None)
            failure = _unexpected(exc or StoreError("no exception"), "a connection")
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

    With `tls` it speaks https.
    """
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


def port_of(runner: web.AppRunner) -> int:
    """The port that a runner listens on."""
    port: int = runner.addresses[0][1]
    return port
