"""Bounds on connections that send nothing, much or slowly, or never read."""

import asyncio
import gc
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from aiohttp.web_protocol import MAX_MSG_QUEUE_SIZE

from qss_client.clock import SystemClock
from qss_store.http.connection.protocol import LISTENER_LIMITS, Connection, ListenerLimits
from qss_store.http.middleware import shell_middlewares
from qss_store.http.server import make_runner
from qss_store.runtime.metrics import Metrics
from qss_testing.pods.certificates import Authority
from qss_testing.pods.ports import port_of
from qss_testing.waiting import wait_until_async

Talker = tuple[asyncio.StreamReader, asyncio.StreamWriter]
GET = b"GET /small HTTP/1.1\r\nHost: x\r\n\r\n"
LARGE = 8 * 1024 * 1024
PAGE = 60 * 1024


class Server:
    """A listener with an answer of each kind, and connections to it."""

    def __init__(self, runner: web.AppRunner, go_on: asyncio.Event) -> None:
        self.runner = runner
        self.port = port_of(runner)
        self.go_on = go_on
        self.writers: list[asyncio.StreamWriter] = []
        self.answered = 0  # Requests for the small answer.

    async def connect(self, address: str = "127.0.0.1") -> Talker:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.port, local_addr=(address, 0)
        )
        self.writers.append(writer)
        return reader, writer

    def connections(self) -> list[Connection]:
        assert self.runner.server is not None
        return [one for one in self.runner.server.connections if isinstance(one, Connection)]


Start = Callable[..., Awaitable[Server]]


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    servers: list[Server] = []
    go_on = asyncio.Event()

    async def small(_: web.Request) -> web.Response:
        servers[-1].answered += 1
        return web.Response(text="small")

    async def large(_: web.Request) -> web.Response:
        return web.Response(body=bytes(LARGE))

    async def page(_: web.Request) -> web.Response:
        return web.Response(body=bytes(PAGE))

    async def waits(_: web.Request) -> web.Response:
        await go_on.wait()
        return web.Response(text="waited")

    async def start(
        most: int = 100,
        limits: ListenerLimits = LISTENER_LIMITS,
        tls: ssl.SSLContext | None = None,
    ) -> Server:
        app = web.Application(middlewares=shell_middlewares(Metrics(), SystemClock(), "test"))
        app.add_routes(
            [
                web.get("/small", small),
                web.get("/page", page),
                web.get("/large", large),
                web.get("/waits", waits),
            ]
        )
        runner = await make_runner(app, "127.0.0.1", 0, most, limits, tls)
        servers.append(Server(runner, go_on))
        return servers[-1]

    yield start
    go_on.set()
    for server in servers:
        for writer in server.writers:
            writer.close()
        await server.runner.cleanup()


async def answer(talker: Talker, request: bytes = GET) -> bytes:
    """The status line of the answer."""
    reader, writer = talker
    writer.write(request)
    line = await reader.readline()
    length = 0
    while (header := await reader.readline()) not in (b"\r\n", b""):
        if header.lower().startswith(b"content-length:"):
            length = int(header.split(b":")[1])
    await reader.readexactly(length)
    return line


# --- Places


async def test_a_newcomer_gets_in_while_others_do_nothing(start: Start) -> None:
    server = await start(most=4)
    silent = [await server.connect() for _ in range(2)]
    assert b"200" in await answer(silent[1])
    assert b"200" in await answer(await server.connect())
    assert await silent[0][0].read() == b"", "the one that was silent longest has gone"
    assert b"200" in await answer(silent[1])


async def test_those_whose_requests_are_under_way_stay_and_newcomers_are_told_so(
    start: Start,
) -> None:
    server = await start(most=2)
    busy = await server.connect()
    busy[1].write(GET.replace(b"small", b"waits"))
    await wait_until_async(lambda: any(not one.is_waiting for one in server.connections()))
    assert b"429" in await answer(await server.connect())
    server.go_on.set()
    assert b"200" in await busy[0].readline()


async def test_who_is_still_taking_an_answer_stays(start: Start) -> None:
    server = await start(most=4)
    reader, writer = await server.connect()
    writer.write(GET.replace(b"small", b"large"))
    await reader.readuntil(b"\r\n\r\n")
    # The handler has ended.
    await wait_until_async(lambda: server.connections()[0]._current_request is None)  # noqa: SLF001
    for _ in range(6):
        assert b"200" in await answer(await server.connect())
    assert len(await reader.readexactly(LARGE)) == LARGE


async def test_who_has_just_been_answered_is_not_the_one_that_was_silent_longest(
    start: Start,
) -> None:
    server = await start(most=4)
    answered, silent = await server.connect(), await server.connect()
    answered[1].write(GET.replace(b"small", b"waits"))
    await wait_until_async(lambda: not all(one.is_waiting for one in server.connections()))
    assert b"200" in await answer(silent)
    server.go_on.set()
    assert b"200" in await answered[0].readline()
    assert b"200" in await answer(await server.connect())
    assert await silent[0].read() == b""
    answered[1].write(GET)
    assert b"small" in await answered[0].readuntil(b"small")


async def test_the_rest_of_an_answer_holds_a_place_for_as_long_as_its_client_may_take_nothing(
    start: Start,
) -> None:
    server = await start(most=4, limits=ListenerLimits(answer_stall_s=2.0))
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(client, ("127.0.0.1", server.port))
        await loop.sock_sendall(client, GET)
        await loop.sock_recv(client, 4096)
        connection = server.connections()[0]
        assert connection.transport is not None
        held = connection.transport.get_extra_info("socket")
        held.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        await loop.sock_sendall(client, GET.replace(b"small", b"page"))
        await wait_until_async(connection.transport.get_write_buffer_size)
        assert not connection.is_waiting
        await wait_until_async(lambda: connection.is_waiting)
        for _ in range(2):
            assert b"200" in await answer(await server.connect())
        assert connection not in server.connections()


async def test_one_address_leaves_room_for_others(start: Start) -> None:
    server = await start(most=10)
    other = await server.connect("127.0.0.3")
    silent = [await server.connect("127.0.0.2") for _ in range(30)]
    await wait_until_async(lambda: sum(reader.at_eof() for reader, _ in silent) == 25)
    assert b"200" in await answer(other)
    assert b"200" in await answer(await server.connect("127.0.0.4"))


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority.make(tmp_path / "authority")


def all_connections() -> list[Connection]:
    return [one for one in gc.get_objects() if isinstance(one, Connection)]


def server_context(authority: Authority, directory: Path) -> ssl.SSLContext:
    files = authority.issue(directory / "tls")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files / "tls.crt", files / "tls.key")
    return context


async def test_connections_that_never_begin_tls_are_counted_and_go(
    start: Start, authority: Authority, tmp_path: Path
) -> None:
    limits = ListenerLimits(handshake_timeout_s=3.0)
    server = await start(most=6, limits=limits, tls=server_context(authority, tmp_path))
    silent = [await server.connect() for _ in range(12)]
    garbage = await server.connect("127.0.0.2")
    garbage[1].write(b"GET / HTTP/1.1\r\n\r\n")
    trust = ssl.create_default_context(cafile=str(authority.file))
    async with aiohttp.ClientSession() as session:
        for _ in range(3):
            url = f"https://127.0.0.1:{server.port}/small"
            async with session.get(url, ssl=trust, headers={"Connection": "close"}) as found:
                assert await found.text() == "small"
    async with asyncio.timeout(60):
        for reader, _ in silent:
            assert await reader.read() == b""


async def test_tls_begins_with_its_first_bytes(
    start: Start, authority: Authority, tmp_path: Path
) -> None:
    limits = ListenerLimits(handshake_timeout_s=300.0)
    server = await start(limits=limits, tls=server_context(authority, tmp_path))
    before = all_connections()  # Connections of other tests count, too.
    silent = [await server.connect() for _ in range(20)]
    trust = ssl.create_default_context(cafile=str(authority.file))
    async with aiohttp.ClientSession() as session:
        url = f"https://127.0.0.1:{server.port}/small"
        async with session.get(url, ssl=trust) as found:
            assert await found.text() == "small"
        assert len(all_connections()) == len(before) + 1
    silent[0][1].write_eof()
    assert await asyncio.wait_for(silent[0][0].read(), 60) == b"", "long before its time is over"


# --- Heads


@pytest.mark.parametrize("piece", [1000, 100_000])
@pytest.mark.parametrize(
    "head",
    [
        b"".join(b"X-%03d: %b\r\n" % (number, b"a" * 5000) for number in range(20)),
        b"".join(b"X-%03d: a\r\n" % number for number in range(100)),
        b"X: %b\r\n" % (b"a" * 70_000),
    ],
)
async def test_a_head_that_is_too_large_is_told_so(start: Start, head: bytes, piece: int) -> None:
    server = await start()
    reader, writer = await server.connect()
    whole = GET[:-2] + head + b"\r\n"
    for at in range(0, len(whole), piece):
        writer.write(whole[at : at + piece])
        await asyncio.sleep(0)
    assert b" 431 " in await reader.readline()


async def test_a_head_within_its_limits_is_taken_whole_or_in_pieces(start: Start) -> None:
    server = await start()
    reader, writer = await server.connect()
    head = b"".join(b"X-%02d: %b\r\n" % (number, b"a" * 900) for number in range(62))
    whole = GET[:-2] + head + b"\r\n"
    assert b"200" in await answer((reader, writer), whole)
    for at in range(0, len(whole) - 100, 100):
        writer.write(whole[at : at + 100])
        await asyncio.sleep(0)
    assert b"200" in await answer((reader, writer), whole[at + 100 :])
    assert b"200" in await answer((reader, writer))


async def test_a_body_is_not_taken_for_a_head(start: Start) -> None:
    server = await start()
    talker = await server.connect()
    for _ in range(3):
        request = GET.replace(b"\r\n\r\n", b"\r\nContent-Length: 200000\r\n\r\n")
        talker[1].write(request)
        for _ in range(20):
            talker[1].write(b"a" * 10_000)
            await asyncio.sleep(0)
        assert b"200" in await answer(talker, b"")


@pytest.mark.parametrize(
    "kept",
    [
        [GET] * (2 * MAX_MSG_QUEUE_SIZE),
        [GET.replace(b"\r\n\r\n", b"\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")],
    ],
    ids=["behind a full queue", "behind a declined upgrade"],
)
async def test_the_body_of_a_request_that_aiohttp_kept_is_not_taken_for_a_head(
    start: Start, kept: list[bytes]
) -> None:
    server = await start()
    talker = await server.connect()
    with_body = GET.replace(b"\r\n\r\n", b"\r\nContent-Length: 200000\r\n\r\n")
    talker[1].write(b"".join(kept) + with_body)
    for _ in kept:
        assert b"200" in await answer(talker, b"")
    assert b"200" in await answer(talker, b"a" * 200_000)
    assert b"200" in await answer(talker)


async def test_a_head_that_comes_too_slowly_ends_its_connection(start: Start) -> None:
    server = await start(limits=ListenerLimits(head_timeout_s=0.2))
    reader, writer = await server.connect()
    writer.write(GET[:10])
    assert await asyncio.wait_for(reader.read(), 10) == b""
    again = await server.connect()
    again[1].write(GET[:10])
    assert b"200" in await answer(again, GET[10:])


# --- Answers


async def test_who_asks_again_and_again_and_never_reads_costs_little_and_goes(
    start: Start,
) -> None:
    server = await start(limits=ListenerLimits(answer_stall_s=0.5))
    reader, writer = await server.connect()
    writer.write(GET.replace(b"small", b"large") * 50)
    await wait_until_async(lambda: bool(server.connections()))
    (connection,) = server.connections()
    most = 0

    def is_gone() -> bool:
        nonlocal most
        transport = connection.transport
        most = max(most, 0 if transport is None else transport.get_write_buffer_size())
        return transport is None

    await wait_until_async(is_gone)
    assert most <= LARGE + 1024, "one answer at a time"
    reader.feed_eof()


async def test_of_those_who_send_requests_ahead_one_goes_on_in_each_round(start: Start) -> None:
    server = await start()
    greedy = [await server.connect() for _ in range(20)]
    for _, writer in greedy:
        writer.write(GET * 30)
    most, last = 0, 0
    while last < 20 * 30:
        await asyncio.sleep(0)
        if last > 100:  # The first answers do not have to wait.
            most = max(most, server.answered - last)
        last = server.answered
    assert most <= 2, "the rest of the loop has its turn between them"


async def test_a_slow_reader_that_takes_something_is_waited_for(start: Start) -> None:
    limits = ListenerLimits(answer_stall_s=1.0, answer_bytes_per_s_min=1000)
    server = await start(limits=limits)
    reader, writer = await server.connect()
    writer.write(GET.replace(b"small", b"large"))
    received, began = 0, time.monotonic()
    while received < LARGE:
        some = await reader.read(65_536)
        assert some, received
        received += len(some)
        due = began + received / 2_700_000
        await asyncio.sleep(max(0.0, due - time.monotonic()))
    assert time.monotonic() - began > 2.0


async def test_a_reader_is_not_dropped_for_the_time_in_which_the_pod_stood_still(
    start: Start,
) -> None:
    server = await start(limits=ListenerLimits(answer_stall_s=0.5))
    reader, writer = await server.connect()
    writer.write(GET.replace(b"small", b"large"))
    received = len(await reader.read(65_536))
    await wait_until_async(lambda: server.connections()[0].is_waiting is False)
    threading.Event().wait(1.0)  # The event loop of the pod, and of this reader, stands still.
    while received < LARGE:
        some = await reader.read(65_536)
        assert some, received
        received += len(some)
