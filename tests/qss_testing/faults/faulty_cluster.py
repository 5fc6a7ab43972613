"""Pods in one process, over engines that outlive them, and a network with random faults.

The services are the real ones (Pod, Replica, ParticipantService, CoordinatorService); only the
transport between them and the volumes are replaced. A pod that crashes loses its process at any
await, and keeps its engines.
"""

import asyncio
from collections.abc import Awaitable, Callable
from io import BufferedIOBase
from pathlib import Path
from random import Random  # noqa: TID251 the test brings a seeded one.
from typing import Any, TypeVar

from qss_client.clock import Clock, SystemClock
from qss_core.errors import StoreError, UnreachableError
from qss_core.model import (
    Epoch,
    Isolation,
    Ordinal,
    PartitionConfiguration,
    Partitioner,
    PartitionId,
    PodAddress,
    PodName,
    StoreAssignment,
    StoreDefinition,
    StoreId,
    StoreName,
    StoreSettings,
    StoreType,
)
from qss_core.wire.messages import (
    AbortPartitionsRequest,
    CommitPartitionsRequest,
    PrepareRequest,
    ResolveRequest,
)
from qss_store.replicas.opening.open_database import OpenEngine
from qss_store.replicas.pod_context import PodConfig
from qss_store.runtime.plugins import NO_EXTENSIONS, Extensions
from qss_store.runtime.settings import Settings
from qss_store.writes.pod_services import build_pod

Answer = TypeVar("Answer")
STORE = StoreName("flights")
SYSTEM_CLOCK = SystemClock()
SETTINGS = Settings(finish_timeout_s=2.0, peer_timeout_s=2.0)


def make_assignment(
    partitions: int, pods: int, settings: StoreSettings | None = None
) -> StoreAssignment:
    """An assignment in epoch 1 with each partition on one pod, in turn."""
    return StoreAssignment(
        definition=StoreDefinition(
            name=STORE,
            store_id=StoreId("5f0c"),
            type=StoreType.KEY_VALUE,
            format="Timestamped",
            key_serde="string",
            value_serde="json",
            partitioner=Partitioner.EXPLICIT,
            partitions=partitions,
            isolation=Isolation.READ_COMMITTED,
        ),
        settings=settings or StoreSettings(),
        pods=tuple(
            PodAddress(
                ordinal=Ordinal(number),
                name=PodName(f"{STORE}-{number}"),
                query=f"http://{number}",
                changelog=f"http://{number}",
            )
            for number in range(pods)
        ),
        partitions=tuple(
            PartitionConfiguration(
                partition=PartitionId(number),
                epoch=Epoch(1),
                active=Ordinal(number % pods),
                in_sync=(Ordinal(number % pods),),
                replicas=(Ordinal(number % pods),),
            )
            for number in range(partitions)
        ),
    )


class FaultyNetwork:
    """Carries messages between services; loses, repeats and delays some."""

    def __init__(self, random: Random, fault_rate: float) -> None:
        """`fault_rate` is the probability of each fault in each direction."""
        self.random = random
        self.fault_rate = fault_rate
        self.services: dict[str, Services] = {}
        self._late: set[asyncio.Task[None]] = set()

    async def post(self, url: str, message: object, kind: type[Answer], timeout_s: float) -> Answer:
        host, path = url.removeprefix("http://").split("/", 1)
        answer: Answer = await self.carry(host, lambda services: services.handle(path, message))
        return answer

    async def send(self, url: str, body: bytes, timeout_s: float) -> bytes:
        """No partition of this cluster has standbys."""
        raise UnreachableError(f"{url}: nothing is replicated here")

    async def download(
        self, url: str, body: bytes, take: Callable[[BufferedIOBase], None], timeout_s: float
    ) -> None:
        """No partition here has standbys, so nothing is copied."""
        await self.send(url, body, timeout_s)

    async def carry(self, host: str, deliver: Callable[["Services"], Awaitable[Any]]) -> Any:
        """Carries a request and its answer. Raises UnreachableError if one of them is lost."""
        for _ in range(self.random.randrange(4)):
            await asyncio.sleep(0)
        self._may_lose(host)
        if self.random.random() < self.fault_rate:
            self._deliver_later(host, deliver)
        services = self.services.get(host)
        if services is None:
            raise UnreachableError(f"{host} is down")
        answer = await services.run(deliver(services))
        self._may_lose(host)
        return answer

    def _may_lose(self, host: str) -> None:
        if self.random.random() < self.fault_rate:
            raise UnreachableError(f"a message to or from {host} was lost")

    def _deliver_later(self, host: str, deliver: Callable[["Services"], Awaitable[Any]]) -> None:
        """Delivers a second copy some time later, and drops the answer."""
        turns = self.random.randrange(200)

        async def late() -> None:
            for _ in range(turns):
                await asyncio.sleep(0)
            services = self.services.get(host)
            if services is not None:
                await services.run(deliver(services))

        task = asyncio.get_running_loop().create_task(late())
        self._late.add(task)
        task.add_done_callback(self._forget)

    def _forget(self, task: "asyncio.Task[None]") -> None:
        self._late.discard(task)
        if not task.cancelled() and not isinstance(task.exception(), StoreError | None):
            raise AssertionError("a late copy broke a service") from task.exception()

    async def settle(self) -> None:
        """Waits for the late copies."""
        while self._late:
            await asyncio.gather(*self._late, return_exceptions=True)


class Services:
    """The process of one pod."""

    def __init__(
        self,
        ordinal: int,
        volume: Path,
        open_engine: OpenEngine,
        network: FaultyNetwork,
        *,
        clock: Clock = SYSTEM_CLOCK,
        settings: Settings = SETTINGS,
        extensions: Extensions = NO_EXTENSIONS,
    ) -> None:
        """`open_engine` opens the pod's volume."""
        config = PodConfig(
            store=STORE,
            ordinal=Ordinal(ordinal),
            directory=volume,
            incarnation="process",
            settings=settings,
            extensions=extensions,
        )
        services = build_pod(config, network, clock, open_engine)
        self.pod, self.batches = services.pod, services.participant
        self.coordination, self.maintenance = services.coordinator, services.sweeper
        self._running: set[asyncio.Future[Any]] = set()

    async def run(self, work: Awaitable[Any]) -> Any:
        """Runs work that ends with this process."""
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._end)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise UnreachableError("the pod crashed meanwhile") from None
            raise

    def _end(self, task: "asyncio.Future[Any]") -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # The caller may be gone, which is no error.

    async def handle(self, path: str, message: object) -> Any:
        """Handles a message like the internal port."""
        match message:
            case PrepareRequest():
                return await self.batches.prepare(message)
            case CommitPartitionsRequest():
                return await self.batches.commit(message)
            case AbortPartitionsRequest():
                return await self.batches.abort(message)
            case ResolveRequest():
                return self.coordination.resolve(message)
        raise AssertionError(f"no such request: {path}")

    async def crash(self) -> None:
        """Ends the process: requests, applies and drives stop at their next await."""
        tasks = [*self._running, *self.coordination.tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.pod.close()
