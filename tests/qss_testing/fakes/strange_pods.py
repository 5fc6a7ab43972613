"""Servers in place of pods: they answer as a test says, hang, break off, or send nonsense."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

from qss_core.model import Ordinal, PodAddress, PodName
from qss_testing.pods.ports import port_of
from qss_testing.pods.stores import Cluster, configuration
from qss_testing.waiting import wait_until_async

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Serve = Callable[[Handler], Awaitable[str]]  # As the fixture `serve`.


@dataclass(slots=True)
class StrangePod:
    """Its port, its received requests, and the number of callers that left without an answer."""

    port: int = 0
    requests: list[bytes] = field(default_factory=list)
    left: int = 0


@asynccontextmanager
async def strange_pod(answer: bytes | None) -> AsyncIterator[StrangePod]:
    """Listens; sends `answer` to each request and closes, or with None sends nothing."""
    pod = StrangePod()
    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        try:
            pod.requests.append(await reader.readuntil(b"\r\n\r\n"))
            if answer is None:
                await reader.read()
                pod.left += 1
            else:
                writer.write(answer)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # The caller went away, as some tests intend.
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    pod.port = server.sockets[0].getsockname()[1]
    try:
        yield pod
    finally:
        server.close()
        for writer in writers:
            writer.close()
        await server.wait_closed()


@asynccontextmanager
async def pod_that(
    answers: Handler, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[str]:
    """A pod that has `answers` answer every request; yields its URL."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answers)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port, ssl_context=tls).start()
        yield f"{'http' if tls is None else 'https'}://{host}:{port_of(runner)}"
    finally:
        await runner.cleanup()


def address_of(url: str, ordinal: int = 0) -> PodAddress:
    """The address of a pod of the store `words` that has one port."""
    name = PodName(f"words-{ordinal}")
    return PodAddress(ordinal=Ordinal(ordinal), name=name, query=url, changelog=url)


async def move_address(cluster: Cluster, ordinal: int, port: int) -> None:
    """Tells pod 0 another address of a pod."""
    cluster.ports[ordinal] = port
    pod = cluster.nodes[0].pod
    assert pod.registry.assignment is not None
    await pod.assign(cluster.assignment(list(pod.registry.assignment.partitions)))


def http_answer(status: int, media: str, body: bytes, *, length: int | None = None) -> bytes:
    """The bytes of an answer; `length` may exceed the body's."""
    promised = len(body) if length is None else length
    head = (
        f"HTTP/1.1 {status} Said\r\nContent-Type: {media}\r\nContent-Length: {promised}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + body


async def leave_standby_behind(cluster: Cluster) -> None:
    """Takes pod 1 out of the in-sync set of partition 0 and does not tell it.

    It answers as a standby with the rows that it has, and gets no further ones.
    """
    await cluster.until_level()
    await cluster.nodes[0].pod.assign(cluster.assignment([configuration(0, 0, epoch=2)]))
    await wait_until_async(lambda: cluster.active(0).acting.is_acting)
