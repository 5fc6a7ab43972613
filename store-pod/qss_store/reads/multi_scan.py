"""Scans over many partitions, one after the other, each in key order.

The order is per partition, as Kafka concatenates its partitions' iterators: in a merge each row
would wait for the slowest pod. The cursor has the rest after a limit or a failure.
"""

from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass

from qss_core.errors import (
    CorruptionError,
    DeadlineExceededError,
    NotPresentError,
    PartitionDoesNotExistError,
    Retry,
    StoreError,
)
from qss_core.model import Ordinal, PartitionId
from qss_core.queries.parameters import Scope
from qss_core.queries.requests import PartitionAnswer, failure_of
from qss_store.reads.context import ReadContext
from qss_store.reads.early_parts import EarlyParts
from qss_store.reads.encode.json import ScanEncoder
from qss_store.reads.plans.dispatch import RowsPlan
from qss_store.reads.request import ReadRequest
from qss_store.reads.routing.admission import Reading, read_prepared
from qss_store.reads.routing.budget import ReadBudget
from qss_store.reads.routing.peer_reads import PeerRequest
from qss_store.reads.routing.trace import ExecutionTrace
from qss_store.reads.scans.cursors import Piece, encode_cursor
from qss_store.reads.scans.open_scan import open_scan
from qss_store.reads.scans.sources import LocalSource, Source, open_remote

# A peer ends its part a little earlier, so that it can still send the mark.
PEER_SHARE_OF_TIME = 0.8


@dataclass(frozen=True, slots=True)
class PeerPart:
    """The part of a scan that a peer reads."""

    partition: PartitionId
    cursor: str | None
    limit: int | None
    timeout_s: float
    bytes_max: int
    seconds_max: float


MakePeerRequest = Callable[[PeerPart], PeerRequest]


@dataclass(frozen=True, slots=True)
class ScannedRows:
    """Encoded rows of one partition."""

    partition: PartitionId | None  # None: merged rows of all partitions.
    data: bytes


@dataclass(frozen=True, slots=True)
class Mark:
    """The end of a partition's rows; `cursor` has the rest of the scan, None: there is none."""

    partition: PartitionId
    answer: PartitionAnswer
    cursor: str | None


Event = ScannedRows | Mark


@dataclass(slots=True, kw_only=True)
class Scan:
    """One scan; call `events` once.

    `is_streamed`: rows are sent at once, so the cursor continues a failed partition after its last
    row. Otherwise its rows are dropped, and the cursor starts it again.
    """

    reader: ReadContext
    request: ReadRequest[RowsPlan]
    pieces: tuple[Piece, ...]
    budget: ReadBudget
    encoder: ScanEncoder
    is_streamed: bool
    make_peer_request: MakePeerRequest

    async def events(self) -> AsyncGenerator[Event, None]:
        """Rows and marks, partition by partition."""
        early = EarlyParts(self._open, self._elsewhere())
        try:
            async with aclosing(self._events(early)) as events:
                async for event in events:
                    yield event
        finally:
            await early.close()

    def _elsewhere(self) -> Iterable[Piece]:
        """The pieces that other pods read meanwhile.

        None for a stream, which is as fast as its reader, nor for a page, which may end earlier.
        """
        options, replicas = self.request.options, self.reader.pod.registry.replicas
        is_page = self.request.limit is not None or self.request.cursor is not None
        if self.is_streamed or is_page or options.scope is not Scope.ALL:
            return ()
        return (piece for piece in self.pieces if piece.partition not in replicas)

    async def _events(self, early: EarlyParts) -> AsyncGenerator[Event, None]:
        failed: list[Piece] = []
        for index, piece in enumerate(self.pieces):
            rest = self.pieces[index + 1 :]
            left: Piece | None = None
            source: Source | None = None
            try:
                source = await early.take(piece, self.budget.rows_left)
                source = source or await self._open(piece)
                # With the first rows: another pod waits for them, and asks elsewhere if none come.
                head = b""
                if isinstance(source, LocalSource):
                    head = self.encoder.begin(source.sequence)
                while (chunk := await source.more()).row_count:
                    self.budget.spend(chunk.row_count, len(chunk.data))
                    yield ScannedRows(piece.partition, head + chunk.data)
                    head = b""
                ending = source.ending()
                answer, left = ending.answer, ending.left
            except StoreError as failure:
                error = self._told(piece.partition, failure, source)
                answer = PartitionAnswer(end=False, failure=failure_of(error))
                if may_come_back(error):
                    failed.append(self._left_after_failure(piece, source))
            finally:
                if source is not None:
                    await source.close()
            # Failed partitions come last, so that they do not delay the others.
            cut = () if left is None else (left,)
            yield Mark(piece.partition, answer, self._cursor([*cut, *rest, *failed]))
            if left is not None or self.budget.is_spent(self._now()):
                return

    def _told(self, partition: PartitionId, error: StoreError, source: Source | None) -> StoreError:
        """The error of a partition; damage that a local scan meets is told to the pod."""
        if isinstance(source, LocalSource) and isinstance(error, CorruptionError):
            return self.reader.pod.registry.found_damage(partition, error, source.replica)
        return error

    def _left_after_failure(self, piece: Piece, source: Source | None) -> Piece:
        return source.left_after_failure() if source and self.is_streamed else piece

    def _now(self) -> float:
        return self.reader.pod.clock.monotonic_s()

    def _cursor(self, pieces: Iterable[Piece]) -> str | None:
        codec = self.request.codec
        there = (piece for piece in pieces if piece.partition < codec.partitions)
        return encode_cursor(there, self.request.plan, codec)

    async def _open(self, piece: Piece) -> Source:
        """Opens the first replica of the partition that answers."""
        options = self.request.options
        deadline = min(self._now() + options.timeout_s, self.budget.deadline)

        async def ask(
            pod: Ordinal, _: list[PartitionId], timeout_s: float
        ) -> dict[PartitionId, Source | StoreError]:
            if pod == self.reader.pod.ordinal:
                return {piece.partition: await self._open_local(piece, timeout_s)}
            return {piece.partition: await self._open_remote(pod, piece, timeout_s)}

        found = await self.reader.scatter((piece.partition,), options, ask, deadline)
        source = found[piece.partition]
        if isinstance(source, StoreError):
            raise source
        return source

    async def _open_local(self, piece: Piece, timeout_s: float) -> Source:
        pod = self.reader.pod
        execution = ExecutionTrace(pod.clock, wanted=self.request.options.execution_info)

        def produce(reading: Reading) -> LocalSource:
            with execution.layer("open"):
                scan = open_scan(reading, self.request.plan, piece, self.encoder, pod.metrics)
            patience_s = timeout_s * PEER_SHARE_OF_TIME
            return LocalSource(
                scan, reading, self.budget, pod.clock, pod.turns, execution, patience_s
            )

        partition, since = piece.partition, piece.sequence
        _, source = await read_prepared(pod, partition, self.request, produce, since)
        return source

    async def _open_remote(self, ordinal: Ordinal, piece: Piece, timeout_s: float) -> Source:
        reader, budget = self.reader, self.budget
        asked = self.make_peer_request(
            PeerPart(
                partition=piece.partition,
                cursor=self._cursor([piece]),
                limit=budget.rows_left,
                timeout_s=timeout_s,
                bytes_max=budget.bytes_left,
                seconds_max=(budget.deadline - self._now()) * PEER_SHARE_OF_TIME,
            )
        )
        stream = reader.peers.stream(reader.pod.registry.address(ordinal), asked, timeout_s)
        return await open_remote(stream, piece, self.request, self.encoder)


def may_come_back(error: StoreError) -> bool:
    """Whether the partition may answer later, so that the cursor keeps it."""
    if isinstance(error, PartitionDoesNotExistError):
        return False
    return error.retry is not Retry.NEVER or isinstance(
        error, DeadlineExceededError | NotPresentError
    )
