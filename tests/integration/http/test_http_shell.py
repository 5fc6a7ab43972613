"""The common behaviour of all listeners, over real sockets."""

import asyncio
import json
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
import pytest
from aiohttp import ClientSession, web

from qss_client.clock import SystemClock
from qss_core.errors import NotUpToBoundError, TooLargeError
from qss_store.http.connection.protocol import LISTENER_LIMITS, ListenerLimits
from qss_store.http.middleware import BodyPace, read_body, read_json, shell_middlewares
from qss_store.http.server import make_runner
from qss_store.runtime.metrics import Metrics
from qss_testing.pods.ports import port_of
from qss_testing.waiting import wait_until_async

LIMIT = 1000
FAST = BodyPace(total_s=0.4, grace_s=0.2, bytes_per_s_min=10)


class Greeting(msgspec.Struct, forbid_unknown_fields=True):
    name: str


async def echo(request: web.Request) -> web.Response:
    return web.Response(body=await read_body(request, LIMIT))


async def echo_soon(request: web.Request) -> web.Response:
    return web.Response(body=await read_body(request, LIMIT, FAST))


async def greet(request: web.Request) -> web.Response:
    greeting = await read_json(request, LIMIT, Greeting)
    return web.Response(text=greeting.name)


async def fail(request: web.Request) -> web.Response:
    raise NotUpToBoundError("behind", retry_after_ms=1200)


async def crash(request: web.Request) -> web.Response:
    raise ValueError(f"the key is {request.query_string}")


async def break_off(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(b"half")
    raise ValueError("secret-key")


class Listening:
    def __init__(self, port: int, metrics: Metrics, session: ClientSession) -> None:
        self.port = port
        self.metrics = metrics
        self.session = session
        self.url = f"http://127.0.0.1:{port}"

    async def talk(self, *parts: bytes) -> bytes:
        """All bytes that the server sends until it closes; each part is sent by itself."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        for part in parts:
            writer.write(part)
            await writer.drain()
        try:
            return await asyncio.wait_for(reader.read(), 5)
        finally:
            writer.close()


Listen = Callable[..., Awaitable[Listening]]


@pytest.fixture
async def listen() -> AsyncIterator[Listen]:
    runners: list[web.AppRunner] = []
    async with ClientSession() as session:

        async def start(
            connections_max: int = 100, limits: ListenerLimits = LISTENER_LIMITS
        ) -> Listening:
            metrics = Metrics()
            app = web.Application(middlewares=shell_middlewares(metrics, SystemClock(), "test"))
            app.router.add_post("/echo", echo)
            app.router.add_post("/echo-soon", echo_soon)
            app.router.add_post("/greet", greet)
            app.router.add_get("/things/{key}", fail)
            app.router.add_get("/crash", crash)
            app.router.add_get("/half", break_off)
            runner = await make_runner(app, "127.0.0.1", 0, connections_max, limits)
            runners.append(runner)
            return Listening(port_of(runner), metrics, session)

        yield start
    for runner in runners:
        await runner.cleanup()


def problem_in(raw: bytes) -> dict[str, Any]:
    head, _, body = raw.partition(b"\r\n\r\n")
    assert b"application/problem+json" in head
    problem: dict[str, Any] = json.loads(body)
    return problem


async def test_a_failure_is_a_problem_with_its_code_and_when_to_retry(listen: Listen) -> None:
    server = await listen()
    async with server.session.get(f"{server.url}/things/1") as answer:
        assert (answer.status, answer.content_type) == (503, "application/problem+json")
        assert answer.headers["Retry-After"] == "2"
        assert "Server" not in answer.headers
        problem = await answer.json(content_type=None)
    assert problem["code"] == "NOT_UP_TO_BOUND"
    assert problem["retryAfterMs"] == 1200
    assert problem["detail"] == "behind"


async def test_an_unexpected_failure_tells_nothing_and_logs_no_key(
    listen: Listen, caplog: pytest.LogCaptureFixture
) -> None:
    server = await listen()
    with caplog.at_level(logging.DEBUG):
        async with server.session.get(f"{server.url}/crash?secret-key") as answer:
            body = await answer.text()
    assert answer.status == 500
    assert json.loads(body)["code"] == "STORE_EXCEPTION"
    assert "secret" not in body
    assert "Traceback" not in body
    errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(errors) == 1
    assert "in crash" in errors[0].getMessage()
    assert "secret" not in errors[0].getMessage()


async def test_an_answer_that_has_begun_is_broken_off(listen: Listen) -> None:
    server = await listen()
    raw = await server.talk(b"GET /half HTTP/1.1\r\nHost: x\r\n\r\n")
    assert raw.endswith(b"4\r\nhalf\r\n"), "no end of the chunks: the client sees the cut"


async def test_unknown_paths_and_methods_are_problems(listen: Listen) -> None:
    server = await listen()
    async with server.session.get(f"{server.url}/nowhere") as answer:
        assert answer.status == 404
        assert (await answer.json(content_type=None))["code"] == "PATH_NOT_FOUND"
    async with server.session.get(f"{server.url}/echo") as answer:
        assert answer.status == 405
        assert answer.headers["Allow"] == "POST"
        assert (await answer.json(content_type=None))["code"] == "METHOD_NOT_ALLOWED"


async def test_another_version_of_http_is_refused(listen: Listen) -> None:
    server = await listen()
    raw = await server.talk(b"GET /things/1 HTTP/2.0\r\nHost: x\r\n\r\n")
    assert problem_in(raw)["code"] == "HTTP_VERSION_NOT_SUPPORTED"


@pytest.mark.parametrize(
    "head",
    [
        b"GET /things/1 HTTP/1.1\r\nHost: x\r\nContent-Length: +5\r\n\r\n",
        b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n",
        b"\x16\x03\x01 hello\r\n\r\n",
    ],
)
async def test_what_is_no_http_is_a_problem_without_a_traceback(
    listen: Listen, head: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    server = await listen()
    raw = await server.talk(head)
    assert problem_in(raw)["code"] == "MALFORMED_REQUEST"
    assert b"\r\nServer:" not in raw
    assert not caplog.records


@pytest.mark.parametrize(
    "head",
    [
        b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /things/1 HTTP/1.1\r\nHost: x\r\nX-Long: " + b"a" * 70_000 + b"\r\n\r\n",
    ],
)
async def test_a_head_that_is_too_long_is_told_so(listen: Listen, head: bytes) -> None:
    server = await listen()
    problem = problem_in(await server.talk(head))
    assert problem["code"] == "LIMIT_EXCEEDED"
    assert "goes into the body" in problem["detail"]


async def test_a_body_is_read_whole_and_refused_over_its_limit(listen: Listen) -> None:
    server = await listen()

    async def stream(count: int) -> AsyncIterator[bytes]:
        for _ in range(count):
            yield b"x" * 100

    async with server.session.post(f"{server.url}/echo", data=stream(10)) as answer:
        assert await answer.read() == b"x" * 1000
    for body in (b"x" * (LIMIT + 1), stream(11)):
        async with server.session.post(f"{server.url}/echo", data=body) as answer:
            assert answer.status == TooLargeError.http_status
            problem = await answer.json(content_type=None)
        assert (problem["code"], problem["details"]) == ("LIMIT_EXCEEDED", {"limit": LIMIT})


async def test_an_announced_body_over_the_limit_is_refused_before_it_is_read(
    listen: Listen,
) -> None:
    server = await listen()
    raw = await server.talk(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999\r\n\r\n")
    assert problem_in(raw)["code"] == "LIMIT_EXCEEDED"


async def test_a_slow_body_is_refused(listen: Listen) -> None:
    server = await listen()
    head = b"POST /echo-soon HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n"
    problem = problem_in(await server.talk(head, b"x"))
    assert (problem["code"], problem["status"]) == ("REQUEST_TIMEOUT", 408)


@pytest.mark.parametrize(
    ("transfer", "parts"),
    [
        (b"Content-Length: 100", [b"x" * 100]),
        (b"Content-Length: 100", [b"x", b"x" * 99]),
        (b"Transfer-Encoding: chunked", [b"64\r\n" + b"x" * 100 + b"\r\n", b"0\r\n\r\n"]),
    ],
)
async def test_a_body_is_in_time_though_the_pod_looks_at_it_late(
    transfer: bytes, parts: list[bytes]
) -> None:
    """The pod's loop stands still from before the last part until the deadline is over."""
    *first, last = parts
    loop = asyncio.get_running_loop()

    def stand_still(client: socket.socket) -> None:
        client.sendall(last)
        until = loop.time() + FAST.total_s + FAST.grace_s
        while loop.time() < until:
            pass

    async def echo_late(request: web.Request) -> web.Response:
        came = sum(part.count(b"x") for part in first)
        await wait_until_async(lambda: request.content.total_bytes == came)
        loop.call_soon(stand_still, client)
        return await echo_soon(request)

    app = web.Application()
    app.router.add_post("/echo", echo_late)
    runner = await make_runner(app, "127.0.0.1", 0, 1, LISTENER_LIMITS)
    with socket.create_connection(("127.0.0.1", port_of(runner))) as client:
        head = b"POST /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + transfer + b"\r\n\r\n"
        client.sendall(head + b"".join(first))
        client.setblocking(False)
        answer = b""
        while part := await asyncio.wait_for(loop.sock_recv(client, 4096), 5):
            answer += part
    await runner.cleanup()
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer.endswith(b"x" * 100)


async def test_an_encoded_body_is_refused(listen: Listen) -> None:
    server = await listen()
    headers = {"Content-Encoding": "gzip"}
    async with server.session.post(f"{server.url}/echo", data=b"x", headers=headers) as answer:
        assert answer.status == 415
        assert (await answer.json(content_type=None))["code"] == "UNSUPPORTED_MEDIA"


@pytest.mark.parametrize(
    ("body", "word"),
    [
        (b"{", "Greeting"),
        (b'{"name": 1}', "$.name"),
        (b'{"name": "x", "nane": 1}', "nane"),
        (b'{"name": "\xff"}', "Greeting"),
        (b"", "Greeting"),
    ],
)
async def test_a_malformed_body_is_told_where(listen: Listen, body: bytes, word: str) -> None:
    server = await listen()
    async with server.session.post(f"{server.url}/greet", data=body) as answer:
        problem = await answer.json(content_type=None)
    assert (answer.status, problem["code"]) == (400, "MALFORMED_REQUEST")
    assert word in problem["detail"]


async def test_a_connection_that_sends_no_head_is_closed(listen: Listen) -> None:
    server = await listen(limits=ListenerLimits(keepalive_timeout_s=0.2))
    assert await server.talk(b"GET /crash HT") == b""


async def test_requests_are_counted_by_the_template_of_their_path(listen: Listen) -> None:
    server = await listen()
    for path in ("things/secret-key", "nowhere/secret-key"):
        async with server.session.get(f"{server.url}/{path}") as answer:
            await answer.read()
    async with server.session.post(f"{server.url}/echo", data=b"four") as answer:
        await answer.read()
    text = server.metrics.render(lambda: None).decode()
    assert "secret" not in text
    template = 'qss_requests_total{listener="test",route="/things/{key}",status="503"} 1.0'
    assert template in text
    assert 'qss_requests_total{listener="test",route="(none)",status="404"} 1.0' in text
    assert "qss_received_bytes_total 4.0" in text
