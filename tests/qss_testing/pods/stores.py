"""Stores in one process: real pods and listeners on the loopback; rows are really written."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from aiohttp import web

from qss_client.chunks.chunk import Slice, decode_chunk, encode_slice
from qss_client.chunks.chunk_schema import layout_of
from qss_client.clock import Clock, SystemClock
from qss_core.errors import NotReadyError
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
    WriterEpoch,
)
from qss_core.model import Sequence as BatchSequence
from qss_core.partitioning import partition_of
from qss_core.positions import PositionJson
from qss_core.serdes.registry import serde_of
from qss_core.wire.messages import ChunkReference, PartitionCommit
from qss_store.http.query.app import make_query_app
from qss_store.http.server import FAST_PATH, make_runner
from qss_store.replicas.opening.open_database import OpenEngine
from qss_store.replicas.pod import Pod
from qss_store.replicas.pod_context import PodConfig
from qss_store.replicas.replica import Replica
from qss_store.runtime.peer_client import PeerSession
from qss_store.runtime.plugins import NO_EXTENSIONS, Extensions
from qss_store.runtime.settings import Settings
from qss_store.storage.rocksdb.database import RocksDbEngine
from qss_store.storage.rocksdb.memory_budget import MemoryBudget
from qss_store.transactions.commands import Commit, Stage
from qss_store.writes.participant_service import with_slice
from qss_store.writes.pod_services import PodServices, build_pod
from qss_testing.clients.counted_fast_path import CountedFastPath
from qss_testing.clients.near_peers import NearPeers
from qss_testing.memory_engine import MemoryEngine
from qss_testing.pods.ports import PortsByOrdinal
from qss_testing.waiting import wait_until_async

STORE = StoreName("words")
WRITER = "test"


@dataclass(frozen=True, slots=True)
class Put:
    """A row to write; a None value deletes."""

    key: bytes
    value: bytes | None
    timestamp: int | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    start: int = 0  # The start of a window or a session.
    end: int = 0  # The end of a session.


def open_rocksdb() -> OpenEngine:
    """Opens RocksDB engines that share one small budget."""
    budget = MemoryBudget.of(cache_bytes=8 * 1024 * 1024, write_buffer_bytes=16 * 1024 * 1024)
    return lambda path: RocksDbEngine(path, budget)


def open_memory() -> OpenEngine:
    """Opens in-memory engines, one for each path: its rows outlive a pod."""
    engines: dict[Path, MemoryEngine] = {}

    def open_engine(path: Path) -> MemoryEngine:
        path.mkdir(parents=True, exist_ok=True)
        return engines.setdefault(path, MemoryEngine())

    return open_engine


def make_definition(partitions: int = 4, **members: Any) -> StoreDefinition:
    """A KeyValue store of strings, JSON values and timestamps, changed by `members`."""
    hour_ms = 3_600_000
    lengths: dict[Any, dict[str, Any]] = {
        StoreType.WINDOW: {"window_size_ms": hour_ms, "retention_ms": 24 * hour_ms},
        StoreType.SESSION: {
            "session_gap_ms": hour_ms,
            "retention_ms": 24 * hour_ms,
            "format": "Plain",
        },
        StoreType.VERSIONED: {"history_retention_ms": 24 * hour_ms, "format": "Plain"},
    }
    given: dict[str, Any] = {
        "name": STORE,
        "store_id": StoreId("store-1"),
        "type": StoreType.KEY_VALUE,
        "format": "Timestamped",
        "key_serde": "string",
        "value_serde": "json",
        "partitioner": Partitioner.MURMUR2,
        "partitions": partitions,
        "isolation": Isolation.READ_COMMITTED,
        **lengths.get(members.get("type"), {}),
        **members,
    }
    return StoreDefinition(**given)


def configuration(
    partition: int,
    active: int,
    standbys: Iterable[int] = (),
    learners: Iterable[int] = (),
    epoch: int = 1,
) -> PartitionConfiguration:
    in_sync = (Ordinal(active), *map(Ordinal, standbys))
    return PartitionConfiguration(
        partition=PartitionId(partition),
        epoch=Epoch(epoch),
        active=Ordinal(active),
        in_sync=in_sync,
        replicas=(*in_sync, *map(Ordinal, learners)),
    )


@dataclass(slots=True)
class Node:
    """One pod and its query listener; `port` stays the same across restarts."""

    services: PodServices
    session: PeerSession
    runner: web.AppRunner
    port: int
    sends: "asyncio.Task[None]"

    @property
    def pod(self) -> Pod:
        """The pod of this node."""
        return self.services.pod

    async def close(self) -> None:
        """Stops listening and closes the pod."""
        self.sends.cancel()
        await asyncio.gather(self.sends, return_exceptions=True)
        await self.runner.cleanup()
        await self.session.close()
        await self.pod.close()


@dataclass(slots=True)
class Cluster:
    """A store on several pods of one process."""

    definition: StoreDefinition
    volume: Path
    open_engine: OpenEngine
    settings: Settings = field(default_factory=Settings)
    extensions: Extensions = NO_EXTENSIONS
    clock: Clock = field(default_factory=SystemClock)
    nodes: dict[int, Node] = field(default_factory=dict)
    ports: PortsByOrdinal = field(default_factory=PortsByOrdinal)
    starts: Iterator[int] = field(default_factory=count)
    batch: int = 0
    # For each request that reached a pod's fast path: whether the fast path answered it.
    fast_answers: list[bool] = field(default_factory=list)

    async def start(
        self, pods: int, configurations: Sequence[PartitionConfiguration] | None = None
    ) -> None:
        """Starts pods; by default partition p is active on pod p modulo pods."""
        for ordinal in range(pods):
            await self.start_pod(ordinal)
        await self.assign(
            configurations
            or [configuration(number, number % pods) for number in range(self.partitions)]
        )

    @property
    def partitions(self) -> int:
        return self.definition.partitions

    async def start_pod(self, ordinal: int) -> Node:
        """Starts a pod on its volume, or restarts it."""
        config = PodConfig(
            store=self.definition.name,
            ordinal=Ordinal(ordinal),
            directory=self.volume / str(ordinal),
            incarnation=f"{ordinal}-{next(self.starts)}",
            settings=self.settings,
            extensions=self.extensions,
        )
        session = PeerSession()
        services = build_pod(
            config, NearPeers(session, self.services_at), self.clock, self.open_engine
        )
        app = make_query_app(services, session)
        app[FAST_PATH] = CountedFastPath(app[FAST_PATH], self.fast_answers)
        runner = await make_runner(app, "127.0.0.1", self.ports[ordinal])
        sends = asyncio.create_task(services.senders.run())
        node = self.nodes[ordinal] = Node(services, session, runner, self.ports[ordinal], sends)
        await services.pod.start()
        return node

    def services_at(self, url: str) -> PodServices | None:
        """The services of the pod that runs at an address."""
        at = {self.url(ordinal): node.services for ordinal, node in self.nodes.items()}
        return at.get(url)

    async def until_level(self) -> None:
        """Waits until all replicas have applied the same entries, and their actives may act."""

        def is_level() -> bool:
            for number in range(self.partitions):
                active = self.active(number)
                try:
                    active.acting.check()
                except NotReadyError:
                    return False
                if any(one.log.applied != active.log.end for one in self.replicas(number)):
                    return False
            return True

        await wait_until_async(is_level)

    def replicas(self, partition: int) -> list[Replica]:
        """The replicas of a partition on the pods that run."""
        number = PartitionId(partition)
        pods = [node.pod for node in self.nodes.values()]
        return [
            replica
            for pod in pods
            if (replica := pod.registry.replicas.get(number)) is not None
            and replica.role is not None
        ]

    async def stop_pod(self, ordinal: int) -> None:
        """Stops a pod; its volume stays."""
        await self.nodes.pop(ordinal).close()

    async def close(self) -> None:
        for ordinal in list(self.nodes):
            await self.stop_pod(ordinal)

    async def assign(self, configurations: Sequence[PartitionConfiguration]) -> None:
        """Sends an assignment to every running pod."""
        for node in self.nodes.values():
            await node.pod.assign(self.assignment(configurations))

    def assignment(self, configurations: Sequence[PartitionConfiguration]) -> StoreAssignment:
        """An assignment with the addresses of all pods that ever ran."""
        return StoreAssignment(
            definition=self.definition,
            settings=StoreSettings(),
            pods=tuple(self.address(ordinal) for ordinal in sorted(self.ports)),
            partitions=tuple(configurations),
        )

    def address(self, ordinal: int) -> PodAddress:
        """The address of a pod."""
        url = self.url(ordinal)
        name = PodName(f"{self.definition.name}-{ordinal}")
        return PodAddress(ordinal=Ordinal(ordinal), name=name, query=url, changelog=url)

    def url(self, ordinal: int = 0) -> str:
        """The query port of a pod."""
        return f"http://127.0.0.1:{self.ports[ordinal]}"

    # --- Writing

    def partition_of(self, key: bytes) -> int:
        """The partition of a key."""
        return partition_of(key, self.partitions)

    def active(self, partition: int) -> Replica:
        for node in self.nodes.values():
            if node.pod.registry.is_active(partition):
                return node.pod.registry.replicas[PartitionId(partition)]
        raise AssertionError(f"no running pod has the active of partition {partition}")

    async def put(self, rows: Iterable[Put], position: PositionJson | None = None) -> None:
        """Writes one batch into every partition, like the coordinator."""
        by_partition: dict[int, list[Put]] = defaultdict(list)
        for row in rows:
            by_partition[self.partition_of(row.key)].append(row)
        await self.put_into(
            {number: by_partition[number] for number in range(self.partitions)}, position
        )

    async def put_into(
        self, rows: dict[int, list[Put]], position: PositionJson | None = None
    ) -> None:
        """Writes one batch into these partitions only."""
        for partition, of_it in rows.items():
            replica = self.active(partition)
            await commit_rows(replica, of_it, batch=self.batch, position=position or {})
        self.batch += 1

    async def put_values(
        self, values: dict[Any, Any], position: PositionJson | None = None
    ) -> None:
        """Writes values by their keys, with the store's serdes, at timestamp 1000."""
        key, value = serde_of(self.definition.key_serde), serde_of(self.definition.value_serde)
        rows = [Put(key.encode(k), value.encode(v), 1000) for k, v in values.items()]
        await self.put(rows, position)


def slice_of(definition: StoreDefinition, partition: int, rows: Sequence[Put]) -> Slice:
    """The rows as a checked slice of a writer."""
    columns = {
        "key": pa.array([row.key for row in rows], pa.binary()),
        "value": pa.array([row.value for row in rows], pa.binary()),
        "timestamp": pa.array([row.timestamp for row in rows], pa.int64()),
        "headers": pa.array(
            [[{"key": k, "value": v} for k, v in row.headers] for row in rows],
            pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
        ),
    }
    if definition.type is StoreType.WINDOW:
        columns["window_start"] = pa.array([row.start for row in rows], pa.int64())
    if definition.type is StoreType.SESSION:
        columns["session_start"] = pa.array([row.start for row in rows], pa.int64())
        columns["session_end"] = pa.array([row.end for row in rows], pa.int64())
    data = encode_slice(partition, pa.table(columns)).data
    (piece,) = decode_chunk(bytes(data), None, layout_of(definition))
    return piece


async def commit_rows(
    replica: Replica,
    rows: Sequence[Put],
    *,
    batch: int,
    position: PositionJson,
    replace: bool = False,
) -> None:
    """Stages and commits rows in one replica."""
    chunks: tuple[ChunkReference, ...] = ()
    if rows:
        chunks = (await stage_rows(replica, rows, batch=batch, chunk=f"1.{batch}.0"),)
    await commit_chunks(replica, chunks, batch=batch, position=position, replace=replace)


async def stage_rows(
    replica: Replica, rows: Sequence[Put], *, batch: int, chunk: str
) -> ChunkReference:
    """Stages rows in one replica; the chunk's id has the writer epoch."""
    piece = slice_of(replica.definition, replica.partition, rows)
    epoch = WriterEpoch(int(chunk.split(".")[0]))
    stage = Stage(writer=WRITER, generation=0, batch=batch, writer_epoch=epoch, chunk=chunk)
    staged = await replica.append(with_slice(stage, piece), piece.data)
    assert staged.failure is None, staged.failure
    return ChunkReference(id=chunk, records=piece.records, checksum=piece.checksum)


async def commit_chunks(
    replica: Replica,
    chunks: tuple[ChunkReference, ...],
    *,
    batch: int,
    position: PositionJson,
    replace: bool = False,
) -> None:
    """Commits staged chunks in one replica."""
    commit = PartitionCommit(
        sequence=BatchSequence(replica.machine.participant.sequence + 1),
        writer=WRITER,
        generation=0,
        batch=batch,
        writer_epoch=WriterEpoch(1),
        chunks=chunks,
        position=position,
        wall_time_ms=1_700_000_000_000,
        replace=replace,
    )
    committed = await replica.append(Commit(commit=commit))
    assert committed.failure is None, committed.failure


def raised_to(
    configurations: Sequence[PartitionConfiguration], epoch: int
) -> list[PartitionConfiguration]:
    """The same configurations in another epoch."""
    return [msgspec.structs.replace(one, epoch=Epoch(epoch)) for one in configurations]
