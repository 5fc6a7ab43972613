"""The middlewares of all listeners: problem documents, metrics, limits of heads and bodies.

A failure is sent as RFC 9457 `application/problem+json`. An unexpected exception is sent as a 500
and logged once, both without its text, which could quote a key or a value.
"""

import asyncio
import logging
import math
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import aiohttp
from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware

from qss_client.clock import Clock
from qss_core.errors import (
    HeadTooLargeError,
    HttpVersionError,
    MalformedRequestError,
    MethodNotAllowedError,
    PathNotFoundError,
    RequestTimeoutError,
    StoreError,
    TooLargeError,
    UnauthenticatedError,
    UnsupportedMediaError,
)
from qss_core.wire.messages import decode, encode, problem_of
from qss_store.access.rights import NO_ROUTE
from qss_store.http.refusal_log import RefusalLog
from qss_store.runtime.heavy_turns import HeavyTurns
from qss_store.runtime.metrics import Metrics, RequestMetrics
from qss_store.runtime.request_memory import MemoryShare

_LOG = logging.getLogger(__name__)

JSON = "application/json"
PROBLEM_JSON = "application/problem+json"
_VERSIONS = (aiohttp.HttpVersion11, aiohttp.HttpVersion10)
_LARGE_JSON_BYTES = 64 * 1024
_FEW_BYTES = 4 * 1024  # A connection's buffers account for these, so they are never refused.
_OBJECTS_OF_JSON = 10  # Decoded objects take about ten times the bytes of their JSON.


class NotHttpError(MalformedRequestError):
    """The bytes cannot be parsed as HTTP, so the connection cannot continue."""

    def __init__(self) -> None:
        super().__init__("not an HTTP request that this server understands")


# After these errors the connection is closed, whatever the client has not sent or read.
_CLOSING = (RequestTimeoutError, TooLargeError, HeadTooLargeError, HttpVersionError, NotHttpError)
_STATUS_WHEN_GONE = 499  # The client went away before the answer.

Message = TypeVar("Message")


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyPace:
    """The pace that a body must keep: within `total_s`, and after `grace_s` at a minimum rate."""

    total_s: float = 30.0
    grace_s: float = 2.0
    bytes_per_s_min: int = 64 * 1024


BODY_PACE = BodyPace()


# --- Problems


class NamelessResponse(web.Response):
    """An answer without the `Server` header, also outside an application."""

    async def _prepare_headers(self) -> None:
        await super()._prepare_headers()
        self.headers.popall(hdrs.SERVER, None)


def problem_response(error: StoreError, make: type[web.Response] = web.Response) -> web.Response:
    body = encode(problem_of(error))
    return make(status=error.http_status, body=body, headers=problem_headers(error))


def problem_headers(error: StoreError) -> dict[str, str]:
    """The headers of a problem document, except its length."""
    problem = problem_of(error)
    headers = {"Content-Type": PROBLEM_JSON}
    if problem.retry_after_ms is not None:
        headers["Retry-After"] = str(max(1, math.ceil(problem.retry_after_ms / 1000)))
    if isinstance(error, UnauthenticatedError):
        headers["WWW-Authenticate"] = "Bearer"
    if "allow" in error.details:
        headers["Allow"] = error.details["allow"]
    return headers


def _error_of_http(error: web.HTTPException, request: web.Request) -> StoreError:
    """The StoreError for an HTTPException of aiohttp."""
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


def unexpected(error: Exception, what: str) -> StoreError:
    """Logs an unexpected error without its text, and returns the error for the client."""
    frames = "".join(traceback.format_tb(error.__traceback__))
    _LOG.error("%s failed with %s:\n%s", what, type(error).__name__, frames)
    return StoreError("the pod failed to answer; its log says where")


# --- Middlewares


def shell_middlewares(metrics: Metrics, clock: Clock, listener: str) -> list[Middleware]:
    """Turns errors into problem documents, and counts requests for the metrics of `listener`."""
    requests = metrics.requests
    refusals = RefusalLog(listener, clock)

    @web.middleware
    async def answer(request: web.Request, handler: Handler) -> web.StreamResponse:
        started = time.perf_counter()
        status = _STATUS_WHEN_GONE
        response: web.StreamResponse | None = None
        try:
            response = await _answer(request, handler, refusals)
            status = response.status
        finally:
            requests.seen(listener, route_of(request), status, time.perf_counter() - started)
            _count(requests, request, response)
        return response

    return [answer]


async def _answer(
    request: web.Request, handler: Handler, refusals: RefusalLog
) -> web.StreamResponse:
    try:
        await _taken(request)
        _check_head(request)
        return await handler(request)
    except StoreError as error:
        # The traceback refers to this frame, and this frame to the error: the cycle would keep all
        # that the request had read until the garbage collector runs.
        failure = error.with_traceback(None)
    except web.HTTPException as error:
        failure = _error_of_http(error, request)
    except ConnectionError:
        raise  # The client went away.
    except Exception as error:  # noqa: BLE001 the top of a request.
        failure = unexpected(error, f"{request.method} {route_of(request)}")
    if request.writer.output_size > 0:
        # The answer has begun, so the client sees a broken connection.
        raise ConnectionError("the answer broke off")
    refusals.refused(request.method, route_of(request), failure)
    response = problem_response(failure)
    if isinstance(failure, _CLOSING):
        response.force_close()
    return response


def head_too_large() -> HeadTooLargeError:
    """The error for a head over its limits (`connection.protocol.ListenerLimits`)."""
    return HeadTooLargeError(
        "a request's line and headers have up to 65536 bytes in 64 headers: a long key goes into "
        "the body of POST /state/get/STORE or /state/query/STORE"
    )


async def _taken(request: web.Request) -> None:
    """Waits until the client has taken earlier answers, which are still in memory."""
    protocol = request.protocol
    if protocol is not None and protocol.writing_paused:
        await request.writer.drain()


def _check_head(request: web.Request) -> None:
    most = getattr(request.protocol, "head_bytes_max", None)
    if most is not None and _head_bytes(request) > most:
        raise head_too_large()
    if request.version not in _VERSIONS:
        raise HttpVersionError("this server speaks HTTP/1.1 and HTTP/1.0")


def _head_bytes(request: web.Request) -> int:
    """The approximate bytes of a request's head."""
    lines = sum(len(name) + len(value) + 4 for name, value in request.raw_headers)
    return len(request.raw_path) + lines


def route_of(request: web.Request) -> str:
    """The template of the request's path; it contains no key."""
    resource = request.match_info.route.resource
    return resource.canonical if resource is not None else NO_ROUTE


def _count(
    metrics: RequestMetrics,
    request: web.Request,
    response: web.StreamResponse | None,
) -> None:
    """Adds the request's and the answer's bytes."""
    if request.body_exists:
        metrics.bytes_in += request.content.total_bytes
    # `isinstance` is slow for aiohttp's classes.
    if type(response) is web.Response:
        body = response.body
        metrics.bytes_out += len(body) if type(body) is bytes else 0
    elif response is not None:
        metrics.bytes_out += response.body_length


# --- Memory

MEMORY = web.RequestKey("MEMORY", MemoryShare)


def takes_memory(request: web.Request, size: int) -> None:
    """Counts `size` more bytes of the request. Raises OverloadedError."""
    share = request.get(MEMORY)
    if share is None:
        return
    if size <= _FEW_BYTES:
        share.hold(size)
    else:
        share.take(size)


def takes_memory_up_to(request: web.Request, size: int) -> None:
    """Raises the request's counted bytes to `size`. Raises OverloadedError."""
    share = request.get(MEMORY)
    if share is not None:
        share.take_up_to(size)


def takes_objects(request: web.Request, body: bytes) -> None:
    """Counts the objects that a body's JSON decodes to. Raises OverloadedError."""
    if len(body) > _FEW_BYTES:
        takes_memory(request, len(body) * _OBJECTS_OF_JSON)


# --- Bodies

_IN_PARTS = "send it in parts"


async def read_body(
    request: web.Request, limit: int, pace: BodyPace = BODY_PACE, advice: str = _IN_PARTS
) -> bytes:
    """The whole body. Raises TooLargeError, RequestTimeoutError, UnsupportedMediaError.

    Raises OverloadedError if other requests hold the memory. `advice` is for the TooLargeError.
    """
    encoding = request.headers.get(hdrs.CONTENT_ENCODING, "identity")
    if encoding.lower() != "identity":
        raise UnsupportedMediaError(f"a body in {encoding[:40]!r} is not supported: send it plain")
    announced = request.content_length
    if announced is not None and announced > limit:
        raise _body_too_large(limit, advice)
    if not request.body_exists:
        return b""
    if request.content.is_eof() and request.content.total_bytes <= limit:
        body = request.content.read_nowait()  # The body came with the head.
        takes_memory(request, len(body))
        return body
    chunks: list[bytes] = []
    received = 0
    started = asyncio.get_running_loop().time()
    deadline = started + min(pace.total_s, pace.grace_s)
    while chunk := await _next_part(request, received, deadline, pace):
        received += len(chunk)
        if received > limit:
            raise _body_too_large(limit, advice)
        takes_memory(request, len(chunk))
        chunks.append(chunk)
        earned_s = pace.grace_s + received / pace.bytes_per_s_min
        deadline = started + min(pace.total_s, earned_s)
    return b"".join(chunks)


async def _next_part(request: web.Request, received: int, deadline: float, pace: BodyPace) -> bytes:
    """The body's bytes after `received` bytes; nothing at its end. Raises RequestTimeoutError.

    A part that the pod's loop gets to only after the deadline was in time: the pod was late.
    """
    body = request.content
    try:
        async with asyncio.timeout_at(deadline):
            return await body.readany()
    except TimeoutError as error:
        if body.total_bytes > received or body.at_eof():
            return await body.readany()
        if getattr(request.protocol, "has_broken_body", False):
            raise NotHttpError from error
        raise RequestTimeoutError(
            f"the body came too slowly: {received} bytes; send at least {pace.bytes_per_s_min} "
            f"bytes a second, all within {pace.total_s:g} s"
        ) from error


async def read_json(
    request: web.Request,
    limit: int,
    kind: type[Message],
    pace: BodyPace = BODY_PACE,
    check: Callable[[bytes], None] | None = None,
    turns: HeavyTurns | None = None,
    advice: str = _IN_PARTS,
) -> Message:
    """The decoded body. Raises MalformedRequestError, which says what is wrong.

    A large body is decoded in one of the `turns`; `check` may refuse its bytes before.
    """
    body = await read_body(request, limit, pace, advice)
    if turns is None or len(body) <= _LARGE_JSON_BYTES:
        takes_objects(request, body)
        return decode(body, kind)
    async with turns:
        if check is not None:
            check(body)
        takes_objects(request, body)
        return decode(body, kind)


def _body_too_large(limit: int, advice: str) -> TooLargeError:
    return TooLargeError(f"the body is larger than {limit} bytes: {advice}", limit=limit)
