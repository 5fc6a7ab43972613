"""A client of the query port that chooses its packets."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from qss_testing.pods.stores import Cluster

Answer = tuple[bytes, dict[str, str], bytes]
# Headers that differ between answers, and the library's name.
OWN = ("date", "server")


class Connection:
    """A client that chooses its packets."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self) -> Answer:
        head = (await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), 10)).decode()
        first, *lines = head.strip().split("\r\n")
        headers = {name.lower(): value for name, _, value in (one.partition(": ") for one in lines)}
        body = await self.reader.readexactly(int(headers.get("content-length", "0")))
        kept = {name: value for name, value in headers.items() if name not in OWN}
        return first.encode(), kept, body


@asynccontextmanager
async def connected(cluster: Cluster) -> AsyncIterator[Connection]:
    reader, writer = await asyncio.open_connection("127.0.0.1", cluster.ports[0])
    try:
        yield Connection(reader, writer)
    finally:
        writer.close()


def get(path: str, *headers: str) -> bytes:
    lines = "".join(f"{line}\r\n" for line in ("Host: pod", *headers))
    return f"GET {path} HTTP/1.1\r\n{lines}\r\n".encode()


def post(path: str, body: Any, *headers: str) -> bytes:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = "".join(
        f"{line}\r\n" for line in ("Host: pod", f"Content-Length: {len(data)}", *headers)
    )
    return f"POST {path} HTTP/1.1\r\n{lines}\r\n".encode() + data
