"""Servers in place of pods that hang, break off, or send nonsense."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


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


def http_answer(status: int, media: str, body: bytes, *, length: int | None = None) -> bytes:
    """The bytes of an answer; `length` may exceed the body's."""
    promised = len(body) if length is None else length
    head = (
        f"HTTP/1.1 {status} Said\r\nContent-Type: {media}\r\nContent-Length: {promised}\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + body
