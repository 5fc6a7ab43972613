"""A reader of a scan that reads only what the test asks for."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from qss_testing.clients.http import NDJSON
from qss_testing.pods.stores import Cluster

SCAN = "/state/stores/words"


@asynccontextmanager
async def open_stream(
    cluster: Cluster, ordinal: int, media: str = NDJSON
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.WriteTransport]]:
    """A reader that reads only what the test asks for."""
    port = cluster.ports[ordinal]
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=4096)
    head = f"GET {SCAN}?limit=99999 HTTP/1.1\r\nHost: x\r\nAccept: {media}\r\n"
    writer.write(head.encode() + b"Connection: close\r\n\r\n")
    try:
        assert b"200 OK" in await reader.readline()
        yield reader, writer.transport
    finally:
        writer.close()
