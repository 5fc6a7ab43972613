"""One connection of aiohttp, with limits for request heads and for slow readers."""

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

_WAITING_BYTES = 128 * 1024  # Bytes in the kernel that are not sent yet.
_UNSENT_BYTES = 64 * 1024  # Bytes in a connection's buffer; TLS would take half a megabyte.
_LOOKS = 10  # At a client that takes an answer slowly, before it is dropped.
_LARGE_BYTES = 16 * 1024  # If so many bytes come at once, each request checks its own head.


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerLimits:
    """The limits of one listener."""

    connections_max: int = 65_536  # If the pod's setting and its limit of open files allow more.
    keepalive_timeout_s: float = 30.0
    lingering_time_s: float = 1.0
    headers_max: int = 64
    head_bytes_max: int = 64 * 1024
    head_timeout_s: float = 10.0  # From the first byte of a head to its last.
    shutdown_timeout_s: float = 5.0
    handshake_timeout_s: float = 3.0
    # A client that takes fewer bytes of an answer for so long is dropped.
    answer_stall_s: float = 10.0
    answer_bytes_per_s_min: int = 1024


LISTENER_LIMITS = ListenerLimits()
# The ops port is for the kubelet and Prometheus, but anybody who reaches it may connect.
OPS_LIMITS = ListenerLimits(connections_max=128, keepalive_timeout_s=5.0)


class FastPath(Protocol):
    """Answers plain requests at once (application key FAST_PATH)."""

    def frame(self, data: bytes) -> Any:
        """The request in `data`, if `data` is exactly one request that the fast path handles."""

    def answer(self, frame: Any) -> bytes | None:
        """All bytes of the answer; None if aiohttp has to answer."""


class Connection(web.RequestHandler):
    """One connection. Bytes that are not HTTP get a problem document like other failures.

    The fast path answers its requests before aiohttp sees them. That is sound only between two
    requests: all earlier bytes are parsed to the end, and all earlier requests are answered.
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
        """A connection of `server`, counted in `places`; `options` are aiohttp's.

        Requests that a client sends ahead of their answers take `turns`.
        """
        super().__init__(
            server,
            keepalive_timeout=limits.keepalive_timeout_s,
            lingering_time=limits.lingering_time_s,
            # The limit of the whole head is checked before, while it comes.
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
        self._is_parsed = True  # Whether aiohttp's parser is at the first byte of a request.
        self._last_body: Any = None  # The body of the last request; the next head begins after it.
        self.has_broken_body = False  # If so, no more requests are read.
        self._head_bytes = 0
        self._is_refused = False
        # The limit that each request checks its head against; None if no head can be larger.
        self.head_bytes_max: int | None = None
        self._head_handle: asyncio.TimerHandle | None = None
        self._stall_handle: asyncio.TimerHandle | None = None
        # Kept until the connection is lost: aiohttp forgets a transport that still has bytes to
        # send.
        self._out: asyncio.WriteTransport | None = None

    # --- Life

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._out = cast(asyncio.WriteTransport, transport)  # uvloop's transport is not a subclass.
        self._out.set_write_buffer_limits(high=_UNSENT_BYTES)
        _let_little_wait(transport)
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
        """Whether no request is under way, and the client is taking no answer."""
        if self._paused or not (self._handler_waits() or self._handler_has_ended()):
            return False
        if self._out is None or not self._out.get_write_buffer_size():
            return True
        # A short rest of an answer is not watched by `_look_at_the_client`.
        answered_at = self._next_keepalive_close_time - self._keepalive_timeout
        return self._loop.time() - answered_at >= self._limits.answer_stall_s

    def drop(self) -> None:
        """Closes the connection at once, without the rest of an answer."""
        out = self._out
        self.force_close()
        if out is not None:
            out.abort()

    # --- Requests

    def data_received(self, data: bytes) -> None:
        """Answers by the fast path, or gives the data to aiohttp."""
        if not data:  # aiohttp parses bytes that it kept.
            self._parse(data)
            return
        if self._is_refused:
            return
        self._places.heard(self)
        fast_path = self._fast_path
        frame = None if fast_path is None else fast_path.frame(data)
        if frame is not None and self._is_parsed and self._is_idle():
            assert fast_path is not None, "it made the frame"
            answer = fast_path.answer(frame)
            if answer is not None:
                self._next_keepalive_close_time = self._loop.time() + self._keepalive_timeout
                assert self.transport is not None, "data came from it"
                self.transport.write(answer)
                return
        has_new = self._parse(data)
        if frame is None or not self._is_parsed:
            # If the data ends with the head, the next byte starts a request.
            self._is_parsed = has_new and data.endswith(b"\r\n\r\n")

    def _parse(self, data: bytes) -> bool:
        """Gives the data to aiohttp, and limits heads; returns whether requests were found."""
        seen = self._request_count
        is_head = self._last_body is None or self._last_body.is_eof()
        super().data_received(data)
        has_new = self._request_count > seen
        if has_new and not is_head and not self._last_body.is_eof():
            self._break_body()
        if data or has_new:
            self._measure(len(data), has_new=has_new, is_head=is_head)
        return has_new

    def _break_body(self) -> None:
        """Tells the reader of a body that it cannot be parsed; the parser tells the next reader."""
        self._messages.pop()
        self.has_broken_body = True
        # If no handler reads the body, aiohttp takes this error for a slow client, and closes.
        self._last_body.set_exception(TimeoutError())

    def _is_idle(self) -> bool:
        """Whether the handler waits for a request, and the client takes its answers."""
        if self._paused or self._upgraded or self._close or self._force_close:
            return False
        return self._handler_waits()

    def _handler_waits(self) -> bool:
        """Whether all requests that came are answered, and the next one would be handled at once.

        `_messages` and `_current_request` do not tell: aiohttp takes a message one turn before it
        sets the request, and forgets the request before it writes the answer.
        """
        waiter = self._waiter
        # Before the first request the handler may not wait yet.
        return self._request_count == 0 if waiter is None else not waiter.done()

    def _handler_has_ended(self) -> bool:
        return self._task_handler is None or self._task_handler.done()

    def _measure(self, size: int, *, has_new: bool, is_head: bool) -> None:
        """Limits a head that is not complete yet, in bytes and in time."""
        if has_new:
            if self._head_bytes + size > _LARGE_BYTES:
                self.head_bytes_max = self._limits.head_bytes_max
            self._head_bytes = 0
            self._set_head_timer(None)
            self._note_last_body()
            return
        if not is_head or self._upgraded:
            return
        self._head_bytes += size
        if self._head_bytes > self._limits.head_bytes_max:
            self._refuse_head()
        elif self._head_handle is None:
            self._set_head_timer(self._limits.head_timeout_s)

    def _note_last_body(self) -> None:
        if self._messages:
            _, self._last_body = self._messages[-1]

    def _refuse_head(self) -> None:
        """Sends the refusal if all earlier requests are answered, and closes."""
        if self.transport is None or not self._handler_waits():
            self.force_close()
            return
        self.transport.write(_raw_answer(head_too_large()))
        self._is_refused = True
        # The remaining bytes are read and dropped for a while, or the client would not see the
        # answer.
        self._set_head_timer(self._limits.lingering_time_s)

    def _set_head_timer(self, seconds: float | None) -> None:
        if self._head_handle is not None:
            self._head_handle.cancel()
        self._head_handle = None
        if seconds is not None:
            self._head_handle = self._loop.call_later(seconds, self.drop)

    # --- Answers

    def pause_writing(self) -> None:
        """The client takes its answer more slowly than it is written."""
        super().pause_writing()
        self._look_at_the_client(None)

    def resume_writing(self) -> None:
        """The client has taken most of the answer."""
        super().resume_writing()
        self._has_gone_on()
        if self._stall_handle is not None:
            self._stall_handle.cancel()
            self._stall_handle = None

    def _look_at_the_client(self, left_before: int | None, looks: int = 0) -> None:
        """Drops the connection if the client took too few bytes during `looks` looks.

        The client is looked at more than once in its time: while the event loop stands still, no
        client can take anything, and that counts as one look.
        """
        if self._out is None:
            return
        left, limits = self._out.get_write_buffer_size(), self._limits
        least = limits.answer_stall_s * limits.answer_bytes_per_s_min
        if left_before is None or left_before - left >= least:
            left_before, looks = left, 0
        elif looks == _LOOKS:
            self.drop()
            return
        self._stall_handle = self._loop.call_later(
            limits.answer_stall_s / _LOOKS, self._look_at_the_client, left_before, looks + 1
        )

    def _has_gone_on(self) -> None:
        """Notes activity: taking an answer counts like sending a request."""
        self._places.heard(self)
        self._next_keepalive_close_time = self._loop.time() + self._keepalive_timeout

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Writes the rest of an answer, and lets other connections run before the next request."""
        finished = await super().finish_response(request, resp, start_time)
        self._places.heard(self)
        self._note_last_body()  # A declined upgrade is followed by requests that were kept.
        if self._messages:  # aiohttp would answer hundreds of them in one round.
            await self._turns.give_way()
        return finished

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # noqa: ARG002 aiohttp's signature.
    ) -> web.StreamResponse:
        """Answers a request that no handler saw, or whose handler failed."""
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


def _let_little_wait(transport: asyncio.BaseTransport) -> None:
    """Makes the kernel ask for more bytes when it has few left to send.

    By default it fills buffers of megabytes, also in one call, and asks again when a third is free:
    a client that reads slowly but steadily would look stalled.
    """
    connection = transport.get_extra_info("socket")
    if connection is not None and hasattr(socket, "TCP_NOTSENT_LOWAT"):
        with suppress(OSError):  # The client has gone; the next write fails.
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _WAITING_BYTES)


def _has_too_many_headers(error: BaseException | None) -> bool:
    return isinstance(error, BadHttpMessage) and "Too many headers" in error.message


def _raw_answer(error: StoreError) -> bytes:
    """The bytes of a whole answer, for a connection without a handler."""
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
    """Answers that there are too many connections, and closes."""
    with suppress(OSError):  # The client has gone already.
        taken.send(_raw_answer(OverloadedError("too many connections: use fewer, or wait")))
    taken.close()
