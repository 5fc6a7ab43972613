"""One connection: what may come before a request is whole, and how its client takes answers."""

import asyncio
import socket
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Protocol, cast

from aiohttp import hdrs, web
from aiohttp.http_exceptions import BadHttpMessage, LineTooLong

from qss_core.errors import OverloadedError, StoreError
from qss_core.wire.messages import encode, problem_of
from qss_store.http.connection.limits import ConnectionPlaces
from qss_store.http.middleware import (
    NamelessResponse,
    NotHttpError,
    head_too_large,
    problem_headers,
    problem_response,
    unexpected,
)
from qss_store.runtime.heavy_turns import HeavyTurns

_WAITING_BYTES = 128 * 1024  # In the kernel, not sent yet.
_UNSENT_BYTES = 64 * 1024  # In a connection; TLS would take half a megabyte.
_LARGE_BYTES = 16 * 1024  # Heads are looked at again where as much comes at once.


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerLimits:
    """What one listener takes from its clients."""

    connections_max: int = 65_536  # Where the pod's setting, and its open files, allow more.
    keepalive_timeout_s: float = 30.0
    lingering_time_s: float = 1.0
    headers_max: int = 64
    head_bytes_max: int = 64 * 1024
    head_timeout_s: float = 10.0  # From a head's first byte to its last.
    shutdown_timeout_s: float = 5.0
    handshake_timeout_s: float = 3.0
    # A client that took less than this of an answer for so long has gone.
    answer_stall_s: float = 10.0
    answer_bytes_per_s_min: int = 1024


LISTENER_LIMITS = ListenerLimits()
# The kubelet and Prometheus ask, and anybody who reaches the port.
OPS_LIMITS = ListenerLimits(connections_max=128, keepalive_timeout_s=5.0)


class FastPath(Protocol):
    """What answers plain requests at once; whoever fills FAST_PATH has one."""

    def frame(self, data: bytes) -> Any:
        """The request in `data`, if it is one of the fast path's, whole, with nothing behind it."""

    def answer(self, frame: Any) -> bytes | None:
        """All bytes of the answer; None where the ordinary way has to give it."""


class Connection(web.RequestHandler):
    """One connection. What cannot be parsed as HTTP is answered like any other failure.

    With a fast path, requests that it takes are answered before aiohttp sees them. That is sound
    between two requests only: when everything that came before was parsed to its end, and answered.
    """

    __slots__ = (
        "_fast_path",
        "_head_bytes",
        "_head_handle",
        "_is_parsed",
        "_is_refused",
        "_last_body",
        "_limits",
        "_out",
        "_places",
        "_stall_handle",
        "_turns",
        "address",
        "has_broken_body",
        "head_bytes_max",
    )

    def __init__(
        self,
        server: web.Server,
        fast_path: FastPath | None,
        places: ConnectionPlaces,
        limits: ListenerLimits,
        turns: HeavyTurns,
        **options: Any,
    ) -> None:
        """A connection of `server`; `places` counts it, and `options` are aiohttp's.

        Requests that its client sends ahead of their answers take their `turns`.
        """
        super().__init__(
            server,
            keepalive_timeout=limits.keepalive_timeout_s,
            lingering_time=limits.lingering_time_s,
            # The whole head is bounded before, as it comes.
            max_line_size=2 * limits.head_bytes_max,
            max_field_size=2 * limits.head_bytes_max,
            max_headers=limits.headers_max,
            **options,
        )
        self.address = ""
        self._fast_path = fast_path
        self._places = places
        self._limits = limits
        self._turns = turns
        self._is_parsed = True  # Whether aiohttp's parser stands before a request's first byte.
        self._last_body: Any = None  # Of the last request; the next head begins behind it.
        self.has_broken_body = False  # No request comes behind it.
        self._head_bytes = 0
        self._is_refused = False
        # Each request looks whether its own head is within it; None where none can be larger.
        self.head_bytes_max: int | None = None
        self._head_handle: asyncio.TimerHandle | None = None
        self._stall_handle: asyncio.TimerHandle | None = None
        # Until the connection is lost: aiohttp forgets a transport that still has to send.
        self._out: asyncio.WriteTransport | None = None

    # --- Life

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._out = cast(asyncio.WriteTransport, transport)  # uvloop's is no subclass.
        self._out.set_write_buffer_limits(high=_UNSENT_BYTES)
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._places.leave(self)
        self._out = None
        for handle in (self._head_handle, self._stall_handle):
            if handle is not None:
                handle.cancel()
        super().connection_lost(exc)

    @property
    def is_waiting(self) -> bool:
        """Whether no request is under way, and its client takes no answer either."""
        if self._current_request is not None or self._messages or self._paused:
            return False
        if self._out is None or not self._out.get_write_buffer_size():
            return True
        # The rest of an answer: nobody looks at a client that takes nothing of so little.
        answered_at = self._next_keepalive_close_time - self._keepalive_timeout
        return self._loop.time() - answered_at >= self._limits.answer_stall_s

    def drop(self) -> None:
        """Closes it at once; what it did not take of an answer is gone."""
        out = self._out
        self.force_close()
        if out is not None:
            out.abort()

    # --- Requests

    def data_received(self, data: bytes) -> None:
        """Answers by the fast path, or hands over to aiohttp."""
        if not data:  # aiohttp calls itself with nothing.
            super().data_received(data)
            return
        if self._is_refused:
            return
        self._places.heard(self)
        fast_path = self._fast_path
        frame = None if fast_path is None else fast_path.frame(data)
        if fast_path is not None and frame is not None and self._is_parsed and self._is_idle():
            answer = fast_path.answer(frame)
            if answer is not None:
                self._next_keepalive_close_time = self._loop.time() + self._keepalive_timeout
                assert self.transport is not None, "data came from it"
                self.transport.write(answer)
                return
        seen = self._request_count
        is_head = self._last_body is None or self._last_body.is_eof()
        super().data_received(data)
        if self._request_count > seen and not is_head and not self._last_body.is_eof():
            self._break_body()
        if frame is None or not self._is_parsed:
            # A head that ends with the data leaves nothing behind it.
            self._is_parsed = self._request_count > seen and data.endswith(b"\r\n\r\n")
        self._measure(len(data), has_new=self._request_count > seen, is_head=is_head)

    def _break_body(self) -> None:
        """Tells whoever reads a body that it cannot be parsed; the parser tells the next reader."""
        self._messages.pop()
        self.has_broken_body = True
        # aiohttp takes this one for a client's slowness, where nobody reads, and closes.
        self._last_body.set_exception(TimeoutError())

    def _is_idle(self) -> bool:
        """Whether the handler waits for a request, and the client takes its answers."""
        waiter = self._waiter
        # Before its first request the handler may not have begun to wait.
        waits = self._request_count == 0 if waiter is None else not waiter.done()
        blocked = self._paused or self._upgraded or self._close or self._force_close
        return waits and not blocked

    def _measure(self, size: int, *, has_new: bool, is_head: bool) -> None:
        """Bounds a head that is not whole yet, in bytes and in time."""
        if has_new:
            if self._head_bytes + size > _LARGE_BYTES:
                self.head_bytes_max = self._limits.head_bytes_max
            self._head_bytes = 0
            self._set_head_timer(None)
            if self._messages:
                _, self._last_body = self._messages[-1]
            return
        if not is_head or self._upgraded:
            return
        self._head_bytes += size
        if self._head_bytes > self._limits.head_bytes_max:
            self._refuse_head()
        elif self._head_handle is None:
            self._set_head_timer(self._limits.head_timeout_s)

    def _refuse_head(self) -> None:
        """Says so where nothing else is being answered, and closes."""
        if self.transport is None or self._current_request is not None or self._messages:
            self.force_close()
            return
        self.transport.write(_raw_answer(head_too_large()))
        self._is_refused = True
        # What still comes is thrown away for a while: else the client would not see the answer.
        self._set_head_timer(self._limits.lingering_time_s)

    def _set_head_timer(self, seconds: float | None) -> None:
        if self._head_handle is not None:
            self._head_handle.cancel()
        self._head_handle = None
        if seconds is not None:
            self._head_handle = self._loop.call_later(seconds, self.drop)

    # --- Answers

    def pause_writing(self) -> None:
        """The client does not take what it asked for as fast as it comes."""
        super().pause_writing()
        let_little_wait(self.transport)
        self._look_at_the_client(None)

    def resume_writing(self) -> None:
        """It has taken most of it."""
        super().resume_writing()
        self._has_gone_on()
        if self._stall_handle is not None:
            self._stall_handle.cancel()
            self._stall_handle = None

    def _look_at_the_client(self, left_before: int | None) -> None:
        """Drops the connection where the client took next to nothing since the last look."""
        if self._out is None:
            return
        left, limits = self._out.get_write_buffer_size(), self._limits
        least = limits.answer_stall_s * limits.answer_bytes_per_s_min
        if left_before is not None and left_before - left < least:
            self.drop()
            return
        self._stall_handle = self._loop.call_later(
            limits.answer_stall_s, self._look_at_the_client, left
        )

    def _has_gone_on(self) -> None:
        """An answer that goes out is a sign of life, as a request is."""
        self._places.heard(self)
        self._next_keepalive_close_time = self._loop.time() + self._keepalive_timeout

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Writes what is left of an answer, and lets others go before the next request."""
        finished = await super().finish_response(request, resp, start_time)
        self._places.heard(self)
        if self._messages:  # aiohttp would answer hundreds of them in one round of the loop.
            await self._turns.give_way()
        return finished

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
        if isinstance(exc, LineTooLong) or _has_too_many_headers(exc):
            failure = head_too_large()
        elif status < 500:
            failure = NotHttpError()
        else:
            assert isinstance(exc, Exception | None)
            failure = unexpected(exc or StoreError("no exception"), "a connection")
        response = problem_response(failure, NamelessResponse)
        response.headers[hdrs.CONNECTION] = "close"
        response.force_close()
        return response


def let_little_wait(transport: asyncio.BaseTransport | None) -> None:
    """Has the kernel ask for more whenever it has little left to send.

    It would fill buffers of megabytes and ask again when a third of them is free: a reader that
    takes some all the time would look as if it took nothing for longer than anybody waits.
    """
    connection = None if transport is None else transport.get_extra_info("socket")
    if connection is not None and hasattr(socket, "TCP_NOTSENT_LOWAT"):
        with suppress(OSError):  # The reader has gone away meanwhile: the next write tells.
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _WAITING_BYTES)


def _has_too_many_headers(error: BaseException | None) -> bool:
    return isinstance(error, BadHttpMessage) and "Too many headers" in error.message


def _raw_answer(error: StoreError) -> bytes:
    """A whole answer, for a connection that has no handler."""
    body = encode(problem_of(error))
    headers = {
        **problem_headers(error),
        "Content-Length": str(len(body)),
        "Connection": "close",
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    first = f"HTTP/1.1 {error.http_status} {HTTPStatus(error.http_status).phrase}\r\n"
    return f"{first}{lines}\r\n".encode() + body


def refuse(taken: socket.socket) -> None:
    """Tells a connection that there are too many, and closes it."""
    with suppress(OSError):  # It has gone already.
        taken.send(_raw_answer(OverloadedError("too many connections: use fewer, or wait")))
    taken.close()
