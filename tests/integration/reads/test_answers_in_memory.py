"""Rows and answers count as memory of requests until the reader has taken them."""

import asyncio
import gc
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import web

from qss_core.partitioning import partition_of
from qss_store.http.connection.protocol import Connection
from qss_store.runtime.settings import Settings
from qss_testing.clients.http import NDJSON, Api
from qss_testing.pods.stores import Cluster, Put
from qss_testing.pods.timed_stores import WINDOW
from qss_testing.waiting import wait_until_async

StartCluster = Callable[..., Awaitable[Cluster]]
MakeApi = Callable[..., Api]
Ask = Callable[[int], Awaitable[tuple[socket.socket, bytes]]]
MIB = 1024 * 1024
ROW = "/state/stores/words/0001"


@pytest.fixture
async def ask() -> AsyncIterator[Ask]:
    """Asks for the row, and reads only the status of the answer."""
    opened: list[socket.socket] = []

    async def asked(port: int) -> tuple[socket.socket, bytes]:
        one = socket.socket()
        opened.append(one)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(one, ("127.0.0.1", port))
        await loop.sock_sendall(one, f"GET {ROW} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        return one, (await loop.sock_recv(one, 12))[9:]

    yield asked
    for one in opened:
        one.close()


def unsent(cluster: Cluster) -> int:
    """The bytes in the buffers of pod 0's connections."""
    server = cluster.nodes[0].runner.server
    assert server is not None
    transports = [one.transport for one in server.connections if isinstance(one, Connection)]
    return sum(one.get_write_buffer_size() for one in transports if one is not None)


@pytest.mark.parametrize("pods", [1, 2])
async def test_rows_that_nobody_reads_take_no_more_than_their_share(
    start_cluster: StartCluster, api: MakeApi, ask: Ask, pods: int
) -> None:
    settings = Settings(write_stall_max_s=60.0)
    cluster = await start_cluster(pods, partitions=pods, settings=settings)
    await cluster.put_values({"0001": "x" * (4 * MIB), "0002": "small"})
    asked = 0 if pods == 1 else 1 - partition_of(b"0001", pods)
    memory = cluster.nodes[asked].pod.request_memory
    memory.bytes_max = 18 * MIB
    statuses = [(await ask(cluster.ports[asked]))[1] for _ in range(12)]
    assert 2 <= statuses.count(b"200") <= 4
    assert statuses == sorted(statuses)
    assert statuses[-1] == b"429"
    assert (await api(cluster, asked).get("/state/stores/words/0002")).status == 200, "it is small"
    assert 8 * MIB < memory.used <= 18 * MIB
    assert unsent(cluster) < 12 * MIB // 8, "the rest waits in the request's share"


async def test_who_goes_away_gives_back_what_was_kept_for_it(
    start_cluster: StartCluster, api: MakeApi, ask: Ask
) -> None:
    settings = Settings(write_stall_max_s=60.0)
    cluster = await start_cluster(1, partitions=1, settings=settings)
    await cluster.put_values({"0001": "x" * (4 * MIB)})
    memory = cluster.nodes[0].pod.request_memory
    one, _ = await ask(cluster.ports[0])
    await wait_until_async(lambda: memory.used >= 4 * MIB)
    one.close()
    await wait_until_async(lambda: memory.used == 0)
    whole = await api(cluster).get(ROW)
    assert len(whole.json()["value"]) == 4 * MIB
    head = await api(cluster).send("HEAD", ROW, None, {})
    assert int(head.headers["Content-Length"]) == len(whole.body)
    await wait_until_async(lambda: memory.used == 0)


async def test_a_connection_that_has_taken_a_large_row_keeps_nothing_of_it(
    start_cluster: StartCluster,
) -> None:
    cluster = await start_cluster(1, partitions=1)
    await cluster.put_values({"0001": "x" * MIB})
    for method in ("GET", "HEAD"):
        reader, writer = await asyncio.open_connection("127.0.0.1", cluster.ports[0], limit=MIB)
        writer.write(f"{method} {ROW} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        if method == "GET":
            assert len(json.loads(await reader.readexactly(length))["value"]) == MIB
        await wait_until_async(lambda: cluster.nodes[0].pod.request_memory.used == 0)
        held = [one for one in gc.get_objects() if type(one) is web.Response]
        assert not [one for one in held if isinstance(one.body, bytes) and len(one.body) > 65536]
        writer.close()


async def test_what_another_pod_answers_is_counted_where_it_is_gathered(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await start_cluster(2, partitions=2)
    keys = [key for key in map(str, range(40)) if partition_of(key.encode(), 2) == 1][:10]
    await cluster.put_values(dict.fromkeys(keys, "x" * MIB))
    memory = cluster.nodes[0].pod.request_memory
    others = memory.share()
    many, one = {"keys": keys}, {"query": {"type": "KeyQuery", "key": keys[0]}}
    for path, body, size in (
        ("/state/get/words", many, 10 * MIB),
        ("/state/query/words", one, MIB),
        (f"/state/stores/words/{keys[0]}", None, MIB),
    ):
        # An answer is larger than its values: if the values just fit, the answer does not.
        for room, status in ((size, 429), (3 * size, 200)):
            others.take(memory.bytes_max - room)
            before = memory.used
            ask = api(cluster).get(path) if body is None else api(cluster).post(path, body)
            assert (path, (await ask).status) == (path, status)
            assert memory.used == before
            others.close()


async def test_a_page_by_time_counts_while_it_is_made(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await start_cluster(2, **WINDOW)
    row = b'"' + b"x" * 100_000 + b'"'
    await cluster.put([Put(b"k%d" % number, row, 0, start=50_000) for number in range(60)])
    memory = cluster.nodes[0].pod.request_memory
    others = memory.share()
    others.take(memory.bytes_max - 3 * MIB)
    path = "/state/windows/words?orderBy=time&limit=100"
    ndjson = {"Accept": NDJSON}
    marks = (await api(cluster).get(path, **ndjson)).body
    assert marks.count(b'"reason":"LIMIT_EXCEEDED"') == marks.count(b"\n"), "and no row"
    others.close()
    answer = await api(cluster).get(path, **ndjson)
    assert sum(len(line) > 10_000 for line in answer.body.split(b"\n")) == 60
    assert memory.used == 0
