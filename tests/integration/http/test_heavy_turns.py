"""Point reads get a turn while other requests hold the event loop."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from qss_store.runtime.heavy_turns import HeavyTurns
from qss_testing.clients.http import Api
from qss_testing.pods.stores import Cluster

StartCluster = Callable[..., Awaitable[Cluster]]
MakeApi = Callable[..., Api]
HEAVY = 30
TIMES = 10


async def hold_the_loop(turns: HeavyTurns, is_over: asyncio.Event) -> None:
    """Works for 2 ms again and again, like many scans."""
    while not is_over.is_set():
        async with turns:
            began = last = turns.begin()
            while last - began < 0.002:
                last = time.monotonic()
        await asyncio.sleep(0)


async def test_a_batch_get_that_waits_for_its_turn_reads_a_state_that_is_still_there(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await start_cluster(1, partitions=1)
    await cluster.put_values({"a": "0"})
    is_over = asyncio.Event()
    heavy = [
        asyncio.create_task(hold_the_loop(cluster.nodes[0].pod.turns, is_over))
        for _ in range(HEAVY)
    ]
    for number in range(TIMES):
        asking = asyncio.create_task(api(cluster).post("/state/get/words", {"keys": ["a", "b"]}))
        await cluster.put_values({"a": str(number + 1)})
        answer = (await asking).json()
        assert int(answer["results"][0]["value"]) in (number, number + 1)
        assert "value" not in answer["results"][1]
    is_over.set()
    await asyncio.gather(*heavy)
