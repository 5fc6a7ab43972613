"""Lines of another pod's stream: a line that never ends fills no memory."""

import asyncio
from typing import Any

import aiohttp
import pytest

from qss_core.errors import StoreError
from qss_core.model import Ordinal, PodAddress, PodName
from qss_store.reads.routing import peer_reads
from qss_store.reads.routing.peer_reads import Lines

POD = PodAddress(
    ordinal=Ordinal(1), name=PodName("words-1"), query="http://1", changelog="http://1"
)


class Endless:
    """A body without a line break, in pieces of 8 MiB."""

    read = 0

    async def readany(self) -> bytes:
        """The next piece; there is always another one."""
        self.read += 1
        await asyncio.sleep(0)
        return bytes(8 * 1024 * 1024)


async def test_a_line_that_never_ends_is_refused() -> None:
    body: Any = Endless()
    with pytest.raises(StoreError, match="words-1 answered with a line of more than"):
        await Lines(POD, body, timeout_s=30.0).more()
    assert body.read == peer_reads.LINE_BYTES_MAX // (8 * 1024 * 1024) + 1


async def test_whole_lines_are_returned_and_the_rest_is_kept() -> None:
    loop = asyncio.get_running_loop()
    protocol: Any = aiohttp.base_protocol.BaseProtocol(loop)
    body = aiohttp.StreamReader(protocol, limit=2**16, loop=loop)
    body.feed_data(b"one\ntwo\nthr")
    lines = Lines(POD, body, timeout_s=30.0)
    assert await lines.more() == [b"one", b"two"]
    body.feed_data(b"ee\n")
    body.feed_eof()
    assert await lines.more() == [b"three"]
    assert await lines.more() == []
