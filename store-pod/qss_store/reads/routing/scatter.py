"""Asks many partitions at once: one request per pod and round, over each one's replicas."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeVar

from qss_client.clock import Clock
from qss_core.errors import DeadlineExceededError, StoreError
from qss_core.model import Ordinal, PartitionId, PodAddress
from qss_store.reads.routing.replica_router import ReplicaRouter
from qss_store.runtime.request_memory import NoMemoryError

Answer = TypeVar("Answer")
Answers = Mapping[PartitionId, Answer | StoreError]
# Asks one pod for partitions, with a timeout in seconds. Raises if no partition has an answer.
Ask = Callable[[Ordinal, list[PartitionId], float], Awaitable[Answers[Answer]]]


async def scatter(
    routers: dict[PartitionId, ReplicaRouter],
    ask: Ask[Answer],
    pods: Iterable[PodAddress],
    deadline: float,
    clock: Clock,
) -> dict[PartitionId, Answer | StoreError]:
    """Each partition's answer, or the most telling failure.

    Raises NoMemoryError: the request has no memory, not a partition.
    """
    found: dict[PartitionId, Answer | StoreError] = {}
    pending = dict(routers)
    while pending:
        remaining_s = deadline - clock.monotonic_s()
        answers = await _ask_round(pending, ask, remaining_s)
        for partition, answer in answers.items():
            if isinstance(answer, NoMemoryError):
                raise answer
            if isinstance(answer, StoreError):
                router = pending[partition]
                router.fail(answer, pods)
                if not router.is_over:
                    continue
                assert router.failure is not None
                answer = router.failure
            found[partition] = answer
            del pending[partition]
    return found


async def _ask_round(
    pending: dict[PartitionId, ReplicaRouter], ask: Ask[Answer], remaining_s: float
) -> dict[PartitionId, Answer | StoreError]:
    groups: dict[Ordinal, list[PartitionId]] = defaultdict(list)
    for partition, router in pending.items():
        groups[router.take()].append(partition)

    async def ask_pod(
        pod: Ordinal, partitions: list[PartitionId]
    ) -> dict[PartitionId, Answer | StoreError]:
        share_s = min(pending[partition].share_of(remaining_s) for partition in partitions)
        try:
            if share_s <= 0:
                raise deadline_exceeded()
            answers = await ask(pod, partitions, share_s)
            return {partition: answers[partition] for partition in partitions}
        except StoreError as error:
            return dict.fromkeys(partitions, error)

    if len(groups) == 1:  # The usual case needs no task.
        ((pod, of_it),) = groups.items()
        return await ask_pod(pod, of_it)
    async with asyncio.TaskGroup() as tasks:
        asked = [tasks.create_task(ask_pod(pod, of_it)) for pod, of_it in groups.items()]
    return {partition: answer for task in asked for partition, answer in task.result().items()}


def deadline_exceeded() -> DeadlineExceededError:
    """The error of a request whose timeout has passed."""
    return DeadlineExceededError("the request's timeout has passed: give it more time")
