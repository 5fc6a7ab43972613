"""A store in one process with internal and ops ports, and a plain writer."""

import asyncio
from collections.abc import (
    AsyncIterator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pyarrow as pa

from qss_client.chunks.chunk import encode_slice
from qss_client.clock import Clock, SystemClock
from qss_core.errors import NotReadyError
from qss_core.model import (
    Ordinal,
    PartitionConfiguration,
    Partitioner,
    PartitionId,
    PodAddress,
    PodName,
    StoreAssignment,
    StoreDefinition,
    StoreSettings,
)
from qss_core.wire.messages import ChunkReference, CommitRequest
from qss_store.http.internal.app import make_internal_app
from qss_store.http.ops import make_ops_app
from qss_store.http.server import make_runner
from qss_store.replicas.opening.open_database import OpenEngine
from qss_store.replicas.pod import Pod
from qss_store.replicas.pod_context import PodConfig
from qss_store.replicas.replica import Replica
from qss_store.runtime.peer_client import Peers, PeerSession
from qss_store.runtime.settings import Settings
from qss_store.transactions.commands import Decide
from qss_store.writes.commit_driver import active_coordinator
from qss_store.writes.coordinator_service import CoordinatorService
from qss_store.writes.participant_service import ParticipantService
from qss_store.writes.pod_services import PodServices, build_pod
from qss_store.writes.sequence_comparison import Comparison
from qss_store.writes.sweeper import Sweeper
from qss_testing.clients.http import Answer, Api, once_led
from qss_testing.pods.ports import PortsByOrdinal, port_of
from qss_testing.pods.stores import configuration, make_definition, open_memory, open_rocksdb
from qss_testing.waiting import wait_until_async

Rows = Mapping[bytes, bytes | None]
SETTINGS = Settings(finish_timeout_s=30.0, peer_timeout_s=30.0, compare_timeout_s=0.5)
_COMPARED_S = 30.0  # While all other pods run, a pod that starts waits for their answers.
HOST = "127.0.0.1"


@dataclass(slots=True)
class WritePod:
    """One pod's services, its internal port and its ops port."""

    services: PodServices
    pod: Pod
    batches: ParticipantService
    coordination: CoordinatorService
    maintenance: Sweeper
    comparison: Comparison
    internal: Api
    ops: Api
    stack: AsyncExitStack


@dataclass(slots=True)
class WriteCluster:
    """Pods of one store; by default each partition has one replica."""

    definition: StoreDefinition
    volume: Path
    session: aiohttp.ClientSession
    settings: Settings
    limits: StoreSettings
    clock: Clock
    open_engine: OpenEngine
    pods: dict[int, WritePod] = field(default_factory=dict)
    ports: PortsByOrdinal = field(default_factory=PortsByOrdinal)
    starts: Iterator[int] = field(default_factory=count)
    configurations: Sequence[PartitionConfiguration] = ()

    async def start_pod(self, ordinal: int) -> WritePod:
        """Starts a pod on its volume, or restarts it on its old port."""
        volume = self.volume / str(ordinal)
        is_last = {*self.ports} <= {*self.pods, ordinal}
        compare_s = _COMPARED_S if is_last else self.settings.compare_timeout_s
        stack = AsyncExitStack()
        peers = await stack.enter_async_context(PeerSession())
        config = PodConfig(
            store=self.definition.name,
            ordinal=Ordinal(ordinal),
            directory=volume,
            incarnation=f"{ordinal}-{next(self.starts)}",
            settings=replace(self.settings, compare_timeout_s=compare_s),
        )
        services = build_pod(config, Peers(peers), self.clock, self.open_engine)
        pod, coordination, comparison = services.pod, services.coordinator, services.comparison
        stack.push_async_callback(pod.close)
        internal, ops = make_internal_app(services, peers), make_ops_app(services)
        ports = []
        for app, port in ((internal, self.ports[ordinal]), (ops, 0)):
            runner = await make_runner(app, HOST, port)
            stack.push_async_callback(runner.cleanup)
            ports.append(port_of(runner))
        front, back = (Api(self.session, f"http://{HOST}:{port}") for port in ports)
        held = WritePod(
            services,
            pod,
            services.participant,
            coordination,
            services.sweeper,
            comparison,
            *(front, back, stack),
        )
        self.pods[ordinal] = held
        await pod.start(compares=True)
        sends = asyncio.create_task(services.senders.run())
        stack.push_async_callback(_cancel, [sends])
        await comparison.first()
        coordination.driver.go_on()
        return held

    async def stop_pod(self, ordinal: int) -> None:
        """Stops a pod; its volume stays."""
        held = self.pods.pop(ordinal)
        await _cancel([*held.coordination.tasks, *held.services.copies.tasks])
        await held.stack.aclose()

    async def assign(self, configurations: Sequence[PartitionConfiguration]) -> None:
        """Sends an assignment to every running pod."""
        self.configurations = configurations
        for held in self.pods.values():
            await held.pod.assign(self.assignment)

    async def until_led(self) -> None:
        """Waits until every active may act: its standbys have taken its epoch."""

        def is_led() -> bool:
            try:
                for partition in range(self.definition.partitions):
                    self.replica(partition).acting.check()
            except NotReadyError:
                return False
            return True

        await wait_until_async(is_led)

    @property
    def assignment(self) -> StoreAssignment:
        """The assignment, with the addresses of all pods that ever ran."""
        return StoreAssignment(
            definition=self.definition,
            settings=self.limits,
            pods=tuple(
                PodAddress(
                    ordinal=Ordinal(ordinal),
                    name=PodName(f"{self.definition.name}-{ordinal}"),
                    query=f"http://{HOST}:{port}",
                    changelog=f"http://{HOST}:{port}",
                )
                for ordinal, port in sorted(self.ports.items())
            ),
            partitions=tuple(self.configurations),
        )

    def replica(self, partition: int) -> Replica:
        """The active replica of a partition."""
        held = self.pods[self.configurations[partition].active]
        return held.pod.registry.replicas[PartitionId(partition)]

    def rows(self, partition: int) -> dict[bytes, bytes]:
        """The rows that readers see in a partition, without timestamps."""
        view = self.replica(partition).view
        assert view is not None
        return {key: value[8:] for key, value in view.rows.scan()}

    def staged(self) -> set[tuple[int, str]]:
        """(partition, chunk) of all staged chunks."""
        return {
            (partition, chunk)
            for partition in range(self.definition.partitions)
            for _, chunk in self.replica(partition).machine.participant.staged.by_id
        }

    def writer(self, ordinal: int = 0, name: str = "job") -> "Writer":
        """A writer that sends its requests to one pod."""
        return Writer(self.pods[ordinal].internal, name, self.definition.store_id)


async def _cancel(tasks: Iterable["asyncio.Task[None]"]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def write_cluster(
    directory: Path,
    *,
    pods: int = 2,
    partitions: int = 4,
    settings: Settings = SETTINGS,
    limits: StoreSettings | None = None,
    clock: Clock | None = None,
    open_engine: OpenEngine | None = None,
    **definition: Any,
) -> AsyncIterator[WriteCluster]:
    """A store whose writers choose partitions; partition p is active on pod p modulo pods."""
    members = {"partitioner": Partitioner.EXPLICIT, "value_serde": "bytes", **definition}
    async with aiohttp.ClientSession() as session:
        cluster = WriteCluster(
            make_definition(partitions, **members),
            directory,
            session,
            settings,
            limits or StoreSettings(),
            clock or SystemClock(),
            open_engine or open_memory(),
        )
        try:
            for ordinal in range(pods):
                await cluster.start_pod(ordinal)
            await cluster.assign([configuration(p, p % pods) for p in range(partitions)])
            yield cluster
        finally:
            for ordinal in list(cluster.pods):
                await cluster.stop_pod(ordinal)


def chunk_of(rows: Mapping[int, Rows]) -> bytes:
    return b"".join(bytes(encode_slice(p, table_of(of_it)).data) for p, of_it in rows.items())


def table_of(rows: Rows) -> pa.Table:
    """The rows as a table."""
    return pa.table(
        {
            "key": pa.array(list(rows), pa.binary()),
            "value": pa.array(list(rows.values()), pa.binary()),
        }
    )


def reference_of(chunk: str, partition: int, rows: Rows) -> ChunkReference:
    """The reference of one slice, for a commit."""
    one = encode_slice(partition, table_of(rows))
    return ChunkReference(id=chunk, records=one.records, checksum=one.checksum)


Chunks = dict[int, list[ChunkReference]]


@dataclass(slots=True)
class Writer:
    """A writer's requests over HTTP; the test checks each answer."""

    api: Api
    name: str = "job"
    store_id: str = "store-1"

    @property
    def path(self) -> str:
        return f"/changelog/stores/words/writers/{self.name}"

    async def open(self, run: str = "run-1", query: str = "query", **members: Any) -> Answer:
        """Opens a run; by default the open id comes from the run id."""
        body = {"queryId": query, "runId": run, "openId": f"open-{run}", **members}
        return await self.api.post(self.named(self.path), body)

    def named(self, path: str, parameters: str = "") -> str:
        """A path with the id of the writer's store."""
        return "&".join(filter(None, (f"{path}?storeId={self.store_id}", parameters)))

    async def epoch(self, run: str = "run-1", query: str = "query", **members: Any) -> int:
        """The writer epoch of a successful open."""
        answer = await once_led(lambda: self.open(run, query, **members))
        epoch: int = answer.json()["writerEpoch"]
        return epoch

    async def put(
        self, epoch: int, batch: int, chunk: str, body: bytes, *, parameters: str = "generation=1"
    ) -> Answer:
        path = self.named(f"{self.path}/{epoch}/batches/{batch}/chunks/{chunk}", parameters)
        return await self.api.send("PUT", path, body, {})

    async def stage(
        self, epoch: int, batch: int, chunk: str, rows: Mapping[int, Rows], generation: int = 1
    ) -> Chunks:
        """Stages rows, which must succeed; returns the references for a commit."""
        parameters, body = f"generation={generation}", chunk_of(rows)
        answer = await once_led(lambda: self.put(epoch, batch, chunk, body, parameters=parameters))
        results = answer.json()["partitions"]
        assert all(one["failure"] is None for one in results.values()), results
        return {p: [reference_of(chunk, p, of_it)] for p, of_it in rows.items()}

    async def stage_failures(
        self, epoch: int, batch: int, chunk: str, rows: Mapping[int, Rows]
    ) -> dict[int, str]:
        """The error codes of partitions that refused their rows."""
        results = (await self.put(epoch, batch, chunk, chunk_of(rows))).json()["partitions"]
        return {int(p): one["failure"]["code"] for p, one in results.items() if one["failure"]}

    async def commit(
        self,
        epoch: int,
        batch: int,
        chunks: Mapping[int, Iterable[ChunkReference]],
        fingerprint: str | None = None,
        **members: Any,
    ) -> Answer:
        body = {
            "generation": 1,
            "chunks": {str(p): msgspec.to_builtins(list(of_it)) for p, of_it in chunks.items()},
            "position": {"flights": {"0": batch}},
            "fingerprint": fingerprint or f"batch-{batch}",
            **members,
        }
        return await self.api.post(self.named(f"{self.path}/{epoch}/batches/{batch}/commit"), body)

    async def abort(self, epoch: int, batch: int, generation: int = 1) -> Answer:
        path = self.named(f"{self.path}/{epoch}/batches/{batch}/abort")
        return await self.api.post(path, {"generation": generation})

    async def renew(self, epoch: int) -> Answer:
        return await self.api.post(self.named(f"{self.path}/{epoch}/renew"), {})


async def decide(cluster: WriteCluster, writer: Writer, batch: int, chunks: Chunks) -> None:
    """Decides a batch, like a coordinator that ends right after the decision."""
    coordination = cluster.pods[0].coordination
    replica, coordinator = active_coordinator(cluster.pods[0].pod)
    request = CommitRequest(
        generation=1,
        chunks={str(p): tuple(of_it) for p, of_it in chunks.items()},
        position={"flights": {"0": batch}},
        fingerprint=f"batch-{batch}",
    )
    held = coordinator.writer(writer.name)
    decision = coordination.make_decision(coordinator, held, batch, request, carries_rows=False)
    await replica.append(Decide(decision=decision))
    assert coordinator.unfinished is not None


@asynccontextmanager
async def replicated(tmp_path: Path, pods: int = 2, **limits: int) -> AsyncIterator[WriteCluster]:
    """One partition, active on pod 0, with a standby on pod 1; in RocksDB."""
    async with replicated_in(tmp_path, open_rocksdb(), pods, **limits) as cluster:
        yield cluster


@asynccontextmanager
async def replicated_in(
    tmp_path: Path, open_engine: OpenEngine, pods: int = 2, **limits: int
) -> AsyncIterator[WriteCluster]:
    """As `replicated`, in engines of the test."""
    settings = StoreSettings(**limits)
    async with write_cluster(
        tmp_path, pods=pods, partitions=1, limits=settings, open_engine=open_engine
    ) as cluster:
        await cluster.assign([configuration(0, 0, standbys=[1], epoch=2)])
        await cluster.until_led()
        yield cluster


def replica_of(cluster: WriteCluster, pod: int) -> Replica:
    return cluster.pods[pod].pod.registry.replicas[PartitionId(0)]


def rows_of(replica: Replica) -> dict[bytes, bytes]:
    """The rows that readers of one replica see."""
    view = replica.view
    return {} if view is None else {key: value[8:] for key, value in view.rows.scan()}


async def write(writer: Writer, epoch: int, batch: int, rows: Mapping[int, Rows]) -> None:
    chunks: Chunks = await writer.stage(epoch, batch, f"{epoch}.t{batch}.0", rows)
    (await once_led(lambda: writer.commit(epoch, batch, chunks))).json()


async def lead(cluster: WriteCluster, active: int, epoch: int, **others: list[int]) -> None:
    """Makes a pod the active, and waits until it may act."""
    await cluster.assign([configuration(0, active, epoch=epoch, **others)])
    await cluster.until_led()
