"""Requests to many partitions at once; each partition tries its replicas one by one."""

import asyncio

from qss_client.clock import SystemClock
from qss_core.errors import (
    DeadlineExceededError,
    NotActiveError,
    StoreError,
    UnreachableError,
)
from qss_core.model import Ordinal, PartitionId, PodAddress, PodName
from qss_core.queries.parameters import ReadOptions
from qss_store.reads.routing.replica_router import ReplicaRouter
from qss_store.reads.routing.scatter import Answers, scatter
from qss_testing.pods.stores import configuration

PODS = [
    PodAddress(ordinal=Ordinal(number), name=PodName(f"words-{number}"), query="", changelog="")
    for number in range(3)
]
CLOCK = SystemClock()


def routers(*placed: tuple[int, tuple[int, ...]]) -> dict[PartitionId, ReplicaRouter]:
    return {
        PartitionId(number): ReplicaRouter.of(
            configuration(number, active, standbys), Ordinal(9), ReadOptions()
        )
        for number, (active, standbys) in enumerate(placed)
    }


class Pods:
    """Pods that answer with their names, unless they are down."""

    def __init__(self, *down: int) -> None:
        self.down = down
        self.asked: list[tuple[int, list[int]]] = []

    async def ask(
        self, pod: Ordinal, partitions: list[PartitionId], timeout_s: float
    ) -> Answers[str]:
        self.asked.append((int(pod), [int(partition) for partition in partitions]))
        if pod in self.down:
            raise UnreachableError(f"pod {pod} is down")
        return dict.fromkeys(partitions, f"{pod}")


async def test_one_request_for_each_pod() -> None:
    pods = Pods()
    placed = routers((0, ()), (1, ()), (0, ()), (2, ()))
    found = await scatter(placed, pods.ask, PODS, CLOCK.monotonic_s() + 5, CLOCK)
    assert found == {0: "0", 1: "1", 2: "0", 3: "2"}
    assert sorted(pods.asked) == [(0, [0, 2]), (1, [1]), (2, [3])]


async def test_the_partitions_of_a_pod_that_is_down_go_to_their_other_replicas() -> None:
    pods = Pods(0)
    placed = routers((0, (1,)), (0, (2,)), (0, ()))
    found = await scatter(placed, pods.ask, PODS, CLOCK.monotonic_s() + 5, CLOCK)
    assert {partition: found[PartitionId(partition)] for partition in (0, 1)} == {0: "1", 1: "2"}
    assert isinstance(found[PartitionId(2)], UnreachableError)


async def test_one_partitions_failure_is_its_own() -> None:
    asked: list[int] = []

    async def ask(
        pod: Ordinal, partitions: list[PartitionId], timeout_s: float
    ) -> dict[PartitionId, str | StoreError]:
        asked.append(pod)
        moved = NotActiveError("moved", active="words-2")
        return {p: moved if p == 0 and pod == 1 else f"{pod}" for p in partitions}

    placed = routers((1, ()), (1, ()))
    found = await scatter(placed, ask, PODS, CLOCK.monotonic_s() + 5, CLOCK)
    assert found == {0: "2", 1: "1"}
    assert asked == [1, 2]


async def test_nobody_is_asked_after_the_deadline() -> None:
    pods = Pods()
    found = await scatter(routers((0, (1,))), pods.ask, PODS, CLOCK.monotonic_s() - 1, CLOCK)
    assert isinstance(found[PartitionId(0)], DeadlineExceededError)
    assert pods.asked == []


async def test_who_gives_up_leaves_nobody_waiting() -> None:
    waiting = asyncio.Event()
    cancelled: list[int] = []

    async def hang(pod: Ordinal, partitions: list[PartitionId], timeout_s: float) -> Answers[str]:
        waiting.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(pod)
            raise
        return {}

    placed = routers((0, ()), (1, ()))
    task = asyncio.create_task(scatter(placed, hang, PODS, CLOCK.monotonic_s() + 60, CLOCK))
    await waiting.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert sorted(cancelled) == [0, 1]
