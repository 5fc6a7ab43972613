"""Bytes that are no request, or too large a request, are refused, in whatever pieces they come."""

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest

from qss_testing.clients.packets import connected, get
from qss_testing.pods.stores import Cluster

StartCluster = Callable[..., Awaitable[Cluster]]
POINT = get("/state/stores/words/k1")
LARGE_HEAD = get("/state/stores/words/k2", "X-Large: " + "x" * 70_000)


@pytest.fixture
async def cluster(start_cluster: StartCluster) -> Cluster:
    cluster = await start_cluster()
    await cluster.put_values({"k1": 1, "k2": 2})
    return cluster


@pytest.mark.parametrize("piece", [len(LARGE_HEAD) + len(POINT) * 2, 1000])
async def test_a_large_head_is_refused_and_not_the_request_before_it(
    cluster: Cluster, piece: int
) -> None:
    data = POINT + LARGE_HEAD + POINT
    async with connected(cluster) as connection:
        await connection.send(POINT)
        expected = await connection.answer()
        for at in range(0, len(data), piece):
            await connection.send(data[at : at + piece])
            await asyncio.sleep(0)
        assert await connection.answer() == expected
        first, headers, body = await connection.answer()
    assert first == b"HTTP/1.1 431 Request Header Fields Too Large"
    assert headers.keys() == {"connection", "content-length", "content-type"}
    assert json.loads(body)["code"] == "LIMIT_EXCEEDED"


async def test_a_body_that_cannot_be_parsed_is_refused_as_such(cluster: Cluster) -> None:
    server = cluster.nodes[0].runner.server
    assert server is not None
    async with connected(cluster) as connection:
        await connection.send(POINT)
        await connection.answer()
        [handler] = server.connections
        handler.data_received(
            b"POST /state/get/words HTTP/1.1\r\nHost: pod\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        handler.data_received(b"-1\r\n{}\r\n0\r\n\r\n" + POINT)
        first, headers, body = await connection.answer()
        assert first == b"HTTP/1.1 400 Bad Request"
        assert headers["connection"] == "close"
        assert json.loads(body)["code"] == "MALFORMED_REQUEST"
        assert await connection.reader.read() == b""
