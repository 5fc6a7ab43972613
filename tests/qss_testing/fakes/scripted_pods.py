"""A transport that simulates the other pods of a store; only pod 0 is real."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from io import BufferedIOBase
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from qss_client.chunks.chunk import Slice, decode_chunk, encode_slice
from qss_client.chunks.chunk_schema import layout_of
from qss_client.clock import SystemClock
from qss_core.errors import StoreError, UnreachableError
from qss_core.model import Ordinal, StoreDefinition
from qss_core.wire.messages import (
    CommitPartitionsRequest,
    CommitRequest,
    OpenWriterRequest,
    PartitionsAnswer,
    WriterOpened,
)
from qss_store.replicas.opening.open_database import OpenEngine
from qss_store.replicas.pod_context import PodConfig
from qss_store.runtime.settings import Settings
from qss_store.writes.coordinator_service import CoordinatorService
from qss_store.writes.pod_services import PodServices, build_pod
from qss_testing.faults.faulty_cluster import STORE, make_assignment

Answer = TypeVar("Answer")
Message = Any
Reply = Callable[[Message], Awaitable[PartitionsAnswer]]
PATIENT = Settings(finish_timeout_s=30.0, peer_timeout_s=2.0, compare_timeout_s=0.1)
QUICK = replace(PATIENT, finish_timeout_s=0.2)  # For a batch that does not end.


class ScriptedPods:
    """Answers messages to pods that do not exist: with success, or by `reply`.

    `asked` has (host, path, message) of all requests in order.
    """

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, Message]] = []
        self.reply: Reply = yes

    async def post(self, url: str, message: object, kind: type[Answer], timeout_s: float) -> Answer:
        host, _, path = url.removeprefix("http://").partition("/")
        self.asked.append((host, path.rpartition("/")[2], message))
        answer: Answer = await self.reply(message)  # type: ignore[assignment]
        return answer

    async def send(self, url: str, body: bytes, timeout_s: float) -> bytes:
        """No partition of these pods has standbys."""
        raise UnreachableError(f"{url}: nothing is replicated here")

    async def download(
        self, url: str, body: bytes, take: Callable[[BufferedIOBase], None], timeout_s: float
    ) -> None:
        """No partition here has standbys, so nothing is copied."""
        await self.send(url, body, timeout_s)

    def messages(self, path: str) -> list[Message]:
        """The messages to one path."""
        return [message for _, to, message in self.asked if to == path]

    def fail(self, kind: type[Message], error: StoreError, times: int = 10**6) -> None:
        """Messages of a kind fail so many times; all others succeed."""
        left = times

        async def reply(message: Message) -> PartitionsAnswer:
            nonlocal left
            if isinstance(message, kind) and left:
                left -= 1
                raise error
            return await yes(message)

        self.reply = reply


async def yes(message: Message) -> PartitionsAnswer:
    """The answer of a pod without objections."""
    return PartitionsAnswer(partitions=dict.fromkeys(message.epochs))


async def never(_: Message) -> PartitionsAnswer:
    """The answer of a pod that hangs."""
    await asyncio.Event().wait()
    raise AssertionError("nobody sets the event")


@asynccontextmanager
async def pod_among(
    others: ScriptedPods,
    directory: Path,
    open_engine: OpenEngine,
    *,
    ordinal: int = 0,
    pods: int = 2,
    partitions: int = 4,
    settings: Settings = PATIENT,
) -> AsyncIterator[PodServices]:
    """A real pod of a store whose partition p is active on pod p modulo `pods`."""
    config = PodConfig(
        store=STORE,
        ordinal=Ordinal(ordinal),
        directory=directory,
        incarnation="process",
        settings=settings,
    )
    services = build_pod(config, others, SystemClock(), open_engine)
    try:
        await services.pod.start()
        await services.pod.assign(make_assignment(partitions, pods))
        yield services
    finally:
        for task in services.coordinator.tasks:
            task.cancel()
        await asyncio.gather(*services.coordinator.tasks, return_exceptions=True)
        await services.pod.close()


async def open_run(coordinator: CoordinatorService, run: str = "run") -> WriterOpened:
    """Opens the writer `job` for one run."""
    request = OpenWriterRequest(query_id="query", run_id=run, open_id=f"open-{run}")
    return await coordinator.open("job", request)


def commit_request(batch: int, generation: int = 1) -> CommitRequest:
    position = {"in": {"0": batch}}
    return CommitRequest(
        generation=generation, chunks={}, position=position, fingerprint=f"print-{batch}"
    )


def rows_of(definition: StoreDefinition, partition: int) -> Slice:
    """One row of a partition, for a commit that carries rows."""
    columns = {
        "key": pa.array([b"k%d" % partition], pa.binary()),
        "value": pa.array([b"1"], pa.binary()),
        "timestamp": pa.array([5], pa.int64()),
    }
    data = encode_slice(partition, pa.table(columns)).data
    (piece,) = decode_chunk(bytes(data), None, layout_of(definition))
    return piece


def is_commit(message: Message) -> bool:
    return isinstance(message, CommitPartitionsRequest)
