"""A connection knows that a request is under way, from its arrival to its answer.

The tests act at the two moments at which aiohttp's queue is empty and it has no current request:
before the handler begins, and after the handler returned but before the answer is written.
"""

import asyncio
import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.web_protocol import MAX_MSG_QUEUE_SIZE

from qss_client.clock import SystemClock
from qss_store.http.connection.limits import ConnectionPlaces
from qss_store.http.connection.protocol import LISTENER_LIMITS, Connection, ListenerLimits
from qss_store.runtime.heavy_turns import HeavyTurns

REQUEST = b"GET /small HTTP/1.1\r\nHost: x\r\n\r\n"
LAST_REQUEST = b"GET /small HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
HEAD_OF_A_BODY = b"PUT /small HTTP/1.1\r\nHost: x\r\nContent-Length: 70000\r\n\r\n"
PART_OF_TOO_LARGE_A_HEAD = b"GET / HTTP/1.1\r\nX: " + b"a" * 70_000

BEFORE_THE_HANDLER, AFTER_THE_HANDLER, NEVER = "before the handler", "after the handler", "never"


class Transport(asyncio.Transport):
    """Keeps all bytes that are written; the client takes none of them."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.is_used = asyncio.Event()  # Set by the first write, or by the end.
        self.is_closed = asyncio.Event()

    def write(self, data: Any) -> None:
        self.written += data
        self.is_used.set()

    def close(self) -> None:
        self.is_used.set()
        self.is_closed.set()

    def abort(self) -> None:
        self.close()

    def is_closing(self) -> bool:
        return self.is_closed.is_set()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return len(self.written)


class Response(web.Response):
    """Calls `before_it_is_written` when its handler has returned."""

    before_it_is_written: Callable[[], None] | None = None

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        if self.before_it_is_written is not None:
            self.before_it_is_written()
        return await super().prepare(request)


@dataclass
class Talk:
    """A connection to a server with one answer, and the moment at which the test acts."""

    moment: str
    act: Callable[[Connection], None]
    limits: ListenerLimits = LISTENER_LIMITS
    transport: Transport = field(default_factory=Transport)
    connection: Connection = field(init=False)

    def __post_init__(self) -> None:
        server = web.Server(self._answer, request_factory=self._make_request)
        self.connection = Connection(
            server,
            None,
            ConnectionPlaces(10),
            self.limits,
            HeavyTurns(SystemClock()),
            loop=asyncio.get_running_loop(),
            access_log=None,
        )
        self.connection.connection_made(self.transport)

    def _make_request(self, *parts: Any) -> web.BaseRequest:
        """aiohttp calls this when it has taken the message from its queue."""
        if self.moment == BEFORE_THE_HANDLER:
            self.act(self.connection)
        return web.BaseRequest(*(*parts, asyncio.get_running_loop()))

    async def _answer(self, _: web.BaseRequest) -> web.Response:
        response = Response(text="small")
        if self.moment == AFTER_THE_HANDLER:
            response.before_it_is_written = lambda: self.act(self.connection)
        return response


@pytest.mark.parametrize("moment", [BEFORE_THE_HANDLER, AFTER_THE_HANDLER])
async def test_the_refusal_of_a_head_is_not_sent_before_the_answer_of_an_earlier_request(
    moment: str,
) -> None:
    talk = Talk(moment, lambda connection: connection.data_received(PART_OF_TOO_LARGE_A_HEAD))
    talk.connection.data_received(REQUEST)
    await talk.transport.is_used.wait()
    statuses = re.findall(rb"HTTP/1.1 (\d+)", talk.transport.written)
    assert statuses in ([], [b"200"])
    await talk.transport.is_closed.wait()


@pytest.mark.parametrize("moment", [BEFORE_THE_HANDLER, AFTER_THE_HANDLER])
async def test_a_connection_whose_request_is_not_answered_yet_does_not_wait(moment: str) -> None:
    waits: list[bool] = []
    talk = Talk(moment, lambda connection: waits.append(connection.is_waiting))
    assert talk.connection.is_waiting
    talk.connection.data_received(REQUEST)
    await talk.transport.is_used.wait()
    assert waits == [False]
    talk.connection.drop()


async def test_a_connection_whose_handler_has_ended_waits_when_its_client_takes_no_rest() -> None:
    talk = Talk(NEVER, lambda _: None, ListenerLimits(answer_stall_s=0.0))
    talk.connection.data_received(LAST_REQUEST)
    await talk.transport.is_closed.wait()
    assert talk.transport.written
    assert talk.connection.is_waiting


async def test_a_body_behind_a_full_queue_is_not_taken_for_a_head_while_a_handler_works() -> None:
    is_open: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    requests = itertools.count(1)

    def act(connection: Connection) -> None:
        # aiohttp has just parsed on, since half of its queue is empty.
        if next(requests) == MAX_MSG_QUEUE_SIZE // 2:
            connection.data_received(b"a" * 70_000)
            is_open.set_result(connection.transport is not None)

    talk = Talk(BEFORE_THE_HANDLER, act)
    talk.connection.data_received(REQUEST * (MAX_MSG_QUEUE_SIZE + 1) + HEAD_OF_A_BODY)
    assert await is_open
    talk.connection.drop()
