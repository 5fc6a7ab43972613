"""The memory that all answers of a pod may take together."""

import asyncio
import gc
import json
import tracemalloc
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

import aiohttp
import pytest
from aiohttp import web

from qss_client.clock import SystemClock
from qss_core.errors import TooLargeError
from qss_core.positions import Position, encode_token
from qss_store.http.content_types import JSON
from qss_store.http.large_answers import memory_middlewares
from qss_store.http.middleware import read_json, shell_middlewares
from qss_store.http.query.streams import Collected
from qss_store.http.server import make_runner
from qss_store.runtime.metrics import Metrics
from qss_store.runtime.request_memory import RequestMemory
from qss_store.runtime.settings import Settings
from qss_testing.clients.http import Api
from qss_testing.faults.slow_readers import open_stream
from qss_testing.pods.ports import port_of
from qss_testing.pods.stores import Cluster
from qss_testing.waiting import wait_until_async

StartCluster = Callable[..., Awaitable[Cluster]]
MakeApi = Callable[..., Api]
MIB = 1024 * 1024
SCAN = "/state/stores/words"
MANY = "/state/get/words"


async def large(start_cluster: StartCluster, value_bytes: int, rows: int) -> Cluster:
    cluster = await start_cluster(1, partitions=1, settings=Settings(write_stall_max_s=60.0))
    values = {f"{number:04}": "x" * value_bytes for number in range(rows)}
    await cluster.put_values(values)
    return cluster


async def test_documents_that_nobody_reads_take_no_more_than_their_share(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await large(start_cluster, 20_000, 1000)
    memory = cluster.nodes[0].pod.request_memory
    memory.bytes_max = 90 * MIB
    async with AsyncExitStack() as stack:
        for _ in range(2):
            await stack.enter_async_context(open_stream(cluster, 0, JSON))
        assert memory.used > 60 * MIB
        refused = (await api(cluster).get(f"{SCAN}?limit=9999")).problem(429, "LIMIT_EXCEEDED")
        assert "bytes of requests and answers are in memory" in refused["detail"]
        many = {"keys": [f"{number:04}" for number in range(500)]}
        (await api(cluster).post(MANY, many)).problem(429, "LIMIT_EXCEEDED")
        assert (await api(cluster).get(f"{SCAN}/0001")).status == 200
        assert memory.used > 60 * MIB
    await wait_until_async(lambda: memory.used == 0)
    assert len(await api(cluster).rows(f"{SCAN}?limit=9999")) == 1000
    assert memory.used == 0


async def test_a_key_that_is_asked_for_again_and_again_is_read_once(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await large(start_cluster, 2 * MIB, 3)
    body = {"keys": ["0001"] * 900 + ["0002"]}
    answer = await api(cluster).post(MANY, body)
    results = json.loads(answer.body)["results"]
    found = [one for one in results if one["status"] == "FOUND"]
    assert 10 <= len(found) <= 16, "as many as an answer has room for"
    assert {one["status"] for one in results} == {"FOUND", "FAILED"}
    assert "ask for it apart" in results[-2]["failure"]["message"]
    assert cluster.nodes[0].pod.request_memory.used == 0


async def test_keys_that_have_no_room_in_an_answer_keep_no_rows_alive(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await large(start_cluster, 2 * MIB, 3)
    gc.collect()
    of_other_tests = refusals()
    gc.disable()  # A failure that keeps its frames, and with them rows, is a reference cycle.
    try:
        answer = await api(cluster).post(MANY, {"keys": ["0001"] * 900 + ["0002"]})
        assert b"ask for it apart" in answer.body
        # The handler may end shortly after its answer.
        await wait_until_async(lambda: len(refusals()) <= len(of_other_tests), 5)
    finally:
        gc.enable()


def refusals() -> list[TooLargeError]:
    return [found for found in gc.get_objects() if isinstance(found, TooLargeError)]


async def test_a_few_keys_that_come_twice_are_all_answered(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await large(start_cluster, 10, 40)
    keys = [f"{number % 40:04}" for number in range(100)] + ["none", "none"]
    results = (await api(cluster).post(MANY, {"keys": keys})).json()["results"]
    assert [one["key"] for one in results] == keys
    assert [one["status"] for one in results] == ["FOUND"] * 100 + ["ABSENT"] * 2


async def test_many_batch_gets_at_once_stay_within_their_share(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await large(start_cluster, MIB, 20)
    memory = cluster.nodes[0].pod.request_memory
    memory.bytes_max, most = 100 * MIB, 0

    async def watch() -> None:
        nonlocal most
        while True:
            most = max(most, memory.used)
            await asyncio.sleep(0)

    watching = asyncio.create_task(watch())
    body = {"keys": [f"{number:04}" for number in range(20)]}
    answers = await asyncio.gather(*(api(cluster).post(MANY, body) for _ in range(12)))
    watching.cancel()
    statuses = {answer.status for answer in answers}
    assert 200 in statuses
    assert statuses <= {200, 429}
    assert most <= 100 * MIB
    await wait_until_async(lambda: memory.used == 0)


async def test_a_batch_get_reads_few_large_rows_at_once_also_after_small_ones(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await start_cluster(1, partitions=1, settings=Settings(write_stall_max_s=60.0))
    small = {f"a{number:04}": "x" for number in range(400)}
    await cluster.put_values(small | {f"b{number:04}": "x" * MIB for number in range(100)})
    memory = cluster.nodes[0].pod.request_memory
    memory.bytes_max = 8 * MIB
    other = memory.share()
    other.hold(7 * MIB)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        keys = [*small, *(f"b{number:04}" for number in range(100))]
        (await api(cluster).post(MANY, {"keys": keys})).problem(429, "LIMIT_EXCEEDED")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        other.close()
    assert peak - before < 20 * MIB, "at most 16 rows of unknown size are read before they count"


async def test_what_a_refused_request_had_read_is_free_at_once(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await large(start_cluster, MIB, 20)
    memory = cluster.nodes[0].pod.request_memory
    others = memory.share()
    others.take(memory.bytes_max - 10 * MIB)
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            (await api(cluster).get(f"{SCAN}?limit=9999")).problem(429, "LIMIT_EXCEEDED")
        held = [one for one in gc.get_objects() if isinstance(one, Collected)]
        assert not held, "nobody waits for the garbage collector"
    finally:
        gc.enable()
        others.close()


@pytest.mark.parametrize("accept", ["application/json", "application/json;q=1"])
async def test_a_row_that_is_known_as_large_is_refused_before_it_is_read(
    start_cluster: StartCluster, api: MakeApi, accept: str
) -> None:
    cluster = await start_cluster(1, partitions=1)
    await cluster.put_values({"0000": "x" * MIB}, {"in": {"0": 41}})
    pod = cluster.nodes[0].pod
    path = f"{SCAN}/0000"
    assert (await api(cluster).get(path, Accept=accept)).status == 200
    others = pod.request_memory.share()
    others.take(pod.request_memory.bytes_max)
    # A reader of the state finds it older than the bound.
    bound = encode_token(Position.of({"in": {0: 50}}))
    ahead = f"{path}?positionBound={bound}&scope=local"
    (await api(cluster).get(ahead, Accept=accept)).problem(429, "LIMIT_EXCEEDED")
    others.close()
    (await api(cluster).get(ahead, Accept=accept)).problem(503, "NOT_UP_TO_BOUND")
    await cluster.put_values({"0000": "small"})
    assert (await api(cluster).get(path, Accept=accept)).json()["value"] == "small"
    others = pod.request_memory.share()
    others.take(pod.request_memory.bytes_max)
    assert (await api(cluster).get(path, Accept=accept)).status == 200, "it is small now"
    others.close()


async def test_a_message_that_came_with_its_head_counts_with_what_is_made_of_it() -> None:
    memory, go_on = RequestMemory(), asyncio.Event()

    async def kept(request: web.Request) -> web.Response:
        message = await read_json(request, MIB, list[str])
        await go_on.wait()
        return web.Response(text=str(len(message)))

    app = web.Application(
        middlewares=[
            *shell_middlewares(Metrics(), SystemClock(), "test"),
            *memory_middlewares(memory, 10.0),
        ]
    )
    app.add_routes([web.post("/kept", kept)])
    runner = await make_runner(app, "127.0.0.1", 0)
    small, large = json.dumps(["x"]), json.dumps(["x" * 10] * 1000)
    async with aiohttp.ClientSession() as session, asyncio.TaskGroup() as tasks:

        async def post(body: str) -> int:
            url = f"http://127.0.0.1:{port_of(runner)}/kept"
            async with session.post(url, data=body) as answer:
                return answer.status

        asked = [tasks.create_task(post(large)) for _ in range(5)]
        await wait_until_async(lambda: memory.used == 5 * 11 * len(large))
        memory.bytes_max = memory.used
        assert await post(large) == 429
        asked.append(tasks.create_task(post(small)))
        await wait_until_async(lambda: memory.used == 5 * 11 * len(large) + len(small))
        go_on.set()
    assert [one.result() for one in asked] == [200] * 6
    await wait_until_async(lambda: memory.used == 0)
    await runner.cleanup()


async def test_a_query_takes_what_is_made_of_its_body(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await start_cluster(1, partitions=1)
    memory = cluster.nodes[0].pod.request_memory
    body = {"keys": [f"{number:04}{'x' * 40}" for number in range(1000)]}
    others = memory.share()
    others.take(memory.bytes_max - 5 * len(json.dumps(body)))
    (await api(cluster).post(MANY, body)).problem(429, "LIMIT_EXCEEDED")
    assert (await api(cluster).post(MANY, {"keys": ["0001"]})).status == 200
    others.close()
    assert (await api(cluster).post(MANY, body)).status == 200
