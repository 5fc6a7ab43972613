"""Connections are accepted, closed and stopped on uvloop, the event loop of a pod."""

import asyncio
import re
from collections import Counter
from collections.abc import Coroutine
from typing import Any

import pytest
import uvloop
from aiohttp import web

from qss_client.clock import SystemClock
from qss_store.http.middleware import shell_middlewares
from qss_store.http.server import make_runner
from qss_store.runtime.metrics import Metrics
from qss_testing.pods.ports import port_of
from qss_testing.waiting import wait_until_async

GET = b"GET /waits HTTP/1.1\r\nHost: x\r\n\r\n"
NONE = b"GET /none HTTP/1.1\r\nHost: x\r\n\r\n"


class Server:
    """A listener whose answers wait until the test releases them."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.runner: web.AppRunner | None = None

    async def start(self, most: int) -> int:
        async def waits(_: web.Request) -> web.Response:
            await self.go_on.wait()
            return web.Response(text="x")

        app = web.Application(middlewares=shell_middlewares(Metrics(), SystemClock(), "test"))
        app.add_routes([web.get("/waits", waits)])
        self.runner = await make_runner(app, "127.0.0.1", 0, most)
        return port_of(self.runner)

    def connections(self) -> int:
        assert self.runner is not None
        assert self.runner.server is not None
        return len(self.runner.server.connections)


def on_uvloop(story: Coroutine[Any, Any, None]) -> None:
    uvloop.run(story)


async def first_of(reader: asyncio.StreamReader) -> bytes:
    """The status; empty if the connection ended without an answer."""
    try:
        return (await reader.read(4096))[9:12]
    except ConnectionError:
        return b""


async def test_a_burst_over_the_limit_leaves_no_connection_behind() -> None:
    async def ask(port: int) -> None:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except ConnectionError:
            return
        writer.write(GET)
        await first_of(reader)
        writer.close()

    async def story() -> None:
        server = Server()
        port = await server.start(50)
        for _ in range(3):
            server.go_on.clear()
            burst = [asyncio.create_task(ask(port)) for _ in range(300)]
            await wait_until_async(lambda: server.connections() >= 25)
            server.go_on.set()
            await asyncio.gather(*burst)
        await wait_until_async(lambda: server.connections() == 0)
        assert server.runner is not None
        await server.runner.cleanup()

    await asyncio.to_thread(on_uvloop, story())


@pytest.mark.parametrize("rounds", [0, 1, 2, 3])
async def test_a_request_that_came_before_the_stop_is_answered(rounds: int) -> None:
    async def story() -> None:
        server = Server()
        port = await server.start(400)
        server.go_on.set()
        talkers = [await asyncio.open_connection("127.0.0.1", port) for _ in range(20)]
        for _, writer in talkers:
            writer.write(GET)
        for _ in range(rounds):
            await asyncio.sleep(0)
        assert server.runner is not None
        cleaning = asyncio.create_task(server.runner.cleanup())
        told = Counter([await first_of(reader) for reader, _ in talkers])
        await cleaning
        for _, writer in talkers:
            writer.close()
        assert told == {b"200": 20}

    await asyncio.to_thread(on_uvloop, story())


async def test_a_refused_head_does_not_overtake_the_answers_before_it() -> None:
    async def story() -> None:
        server = Server()
        port = await server.start(400)
        others = [await asyncio.open_connection("127.0.0.1", port) for _ in range(100)]
        for _, writer in others:
            writer.write(NONE * 100)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(NONE * 3)
        out = await reader.read(4096)
        writer.write(b"GET /none HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 70_000)
        try:
            while piece := await reader.read(4096):
                out += piece
        except ConnectionError:
            pass
        for _, other in (*others, (reader, writer)):
            other.close()
        assert server.runner is not None
        await server.runner.cleanup()
        statuses = re.findall(rb"HTTP/1.1 (\d+)", out)
        assert statuses == sorted(statuses), "404, and then perhaps 431"
        assert len(statuses) <= 4

    await asyncio.to_thread(on_uvloop, story())
