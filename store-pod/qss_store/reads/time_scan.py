"""Pages of rows by time, merged over all partitions; a page is complete or empty.

A partition's rows are stored by key, so each page scans the rest of the time range in every
partition, and keeps the first `limit` rows. The limit bounds its memory, not the range. While a
partition that may come back does not answer, pages are empty and the cursor stays: rows that come
later would break the order.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import dataclass, replace

import msgspec

from qss_core.errors import MalformedBytesError, StoreError, unreadable
from qss_core.model import Ordinal, PartitionId
from qss_core.queries.requests import PartitionAnswer, failure_of
from qss_store.reads.context import ReadContext
from qss_store.reads.encode.json import ScanEncoder
from qss_store.reads.encode.timed_rows import make_timed_writer
from qss_store.reads.multi_scan import (
    PEER_SHARE_OF_TIME,
    Event,
    MakePeerRequest,
    Mark,
    PeerPart,
    ScannedRows,
    may_come_back,
)
from qss_store.reads.plans.times import TimedPlan
from qss_store.reads.request import ReadRequest
from qss_store.reads.routing.admission import Reading, read_prepared
from qss_store.reads.routing.budget import ReadBudget
from qss_store.reads.routing.scatter import deadline_exceeded
from qss_store.reads.routing.trace import ExecutionTrace
from qss_store.reads.scans.cursors import Piece, encode_cursor
from qss_store.reads.scans.replica_reads import CHUNK_ROWS_MAX
from qss_store.reads.scans.sources import open_remote
from qss_store.reads.scans.time_bounds import TimeOrder, make_filter, make_time_order, time_in
from qss_store.reads.scans.time_page import TimePage
from qss_store.reads.scans.timed_scan import LOOKED_AT_MAX, open_rows, visible
from qss_store.runtime.request_memory import MemoryShare, NoMemoryError

_Row = tuple[bytes, bytes]
_RowIterator = Iterator[_Row]
_Line = tuple[PartitionId, bytes, bytes]  # Partition, row key, JSON.


@dataclass(frozen=True, slots=True)
class _Part:
    """One partition's rows for the page; `is_end`: it has no more rows."""

    answer: PartitionAnswer
    rows: list[tuple[TimeOrder, _Line]]
    is_end: bool


@dataclass(slots=True, kw_only=True)
class TimeScan:
    """One page by time; call `events` once.

    The pieces are the rest of each partition; the first piece has the key and the partition of the
    last row that was returned, of any partition.
    """

    reader: ReadContext
    request: ReadRequest[TimedPlan]
    pieces: tuple[Piece, ...]
    budget: ReadBudget
    encoder: ScanEncoder
    make_peer_request: MakePeerRequest
    memory: MemoryShare | None = None

    async def events(self) -> AsyncGenerator[Event, None]:
        """The page's rows, then a mark with the same cursor for each partition."""
        found: dict[PartitionId, _Part | StoreError]
        try:
            found = await self._found()
        except NoMemoryError as error:
            # The answer may have begun. The traceback keeps rows in memory.
            failure = error.with_traceback(None)
            found = {piece.partition: failure for piece in self.pieces}
        failures = [one for one in found.values() if isinstance(one, StoreError)]
        if any(may_come_back(failure) for failure in failures):
            cursor = self._cursor(self._left(found), self.pieces[0])
            for partition, part in found.items():
                yield Mark(partition, _withheld(part), cursor)
            return
        rows, ends = self._merged(found)
        if rows:
            row_keys, lines = zip(*[(row_key, line) for _, (_, row_key, line) in rows], strict=True)
            yield ScannedRows(None, self.encoder.of_own_lines(row_keys, lines))
        left = [piece for piece in self._left(found) if piece.partition not in ends]
        cursor = self._cursor(left, _end_of(rows))
        for partition, part in found.items():
            yield Mark(partition, _answered(part, is_end=partition in ends), cursor)

    # --- All partitions

    async def _found(self) -> dict[PartitionId, _Part | StoreError]:
        """Each partition's rows or its failure, in order of the partitions."""
        partitions = [piece.partition for piece in self.pieces]
        deadline = self.budget.deadline
        found = await self.reader.scatter(partitions, self.request.options, self._ask, deadline)
        return {partition: found[partition] for partition in partitions}

    def _merged(
        self, found: dict[PartitionId, _Part | StoreError]
    ) -> tuple[list[tuple[TimeOrder, _Line]], set[PartitionId]]:
        """The page, and the partitions without rows after it."""
        page: TimePage[_Line] = TimePage(*self._limits, reverse=self.request.plan.reverse)
        parts = {number: one for number, one in found.items() if isinstance(one, _Part)}
        for part in parts.values():
            for order, line in part.rows:
                page.add(order, len(line[2]), line)
        for part in parts.values():
            if not part.is_end:
                page.end_at(part.rows[-1][0])
        rows = page.rows()
        given = dict.fromkeys(parts, 0)
        for _, (partition, _, _) in rows:
            given[partition] += 1
        ends = {
            number
            for number, part in parts.items()
            if part.is_end and given[number] == len(part.rows)
        }
        return rows, ends

    def _left(self, found: dict[PartitionId, _Part | StoreError]) -> list[Piece]:
        """The pieces without a permanent failure, which may still be read."""
        left = []
        for piece in self.pieces:
            part = found[piece.partition]
            if isinstance(part, _Part):
                left.append(Piece(piece.partition, sequence=part.answer.sequence or piece.sequence))
            elif may_come_back(part):
                left.append(Piece(piece.partition, sequence=piece.sequence))
        return left

    def _cursor(self, left: list[Piece], end: Piece) -> str | None:
        """The cursor; its first piece holds the row at which the page ended, as `end` does."""
        if left:
            left[0] = _behind(left[0], end)
        return encode_cursor(left, self.request.plan, self.request.codec)

    @property
    def _limits(self) -> tuple[int, int]:
        """The limits of a page: rows and bytes."""
        limit = self.budget.rows_left
        assert limit is not None, "a page by time has a limit"
        return limit, self.budget.bytes_left

    # --- One partition

    async def _ask(
        self, pod: Ordinal, partitions: list[PartitionId], timeout_s: float
    ) -> dict[PartitionId, _Part | StoreError]:
        deadline = self.reader.pod.clock.monotonic_s() + timeout_s
        found: dict[PartitionId, _Part | StoreError] = {}
        for partition in partitions:
            left_s = deadline - self.reader.pod.clock.monotonic_s()
            try:
                if left_s <= 0:
                    raise deadline_exceeded()
                if pod == self.reader.pod.ordinal:
                    found[partition] = await self._read(self._piece(partition), deadline)
                else:
                    found[partition] = await self._read_at(pod, self._piece(partition), left_s)
            except NoMemoryError:
                raise
            except StoreError as error:
                found[partition] = error.with_traceback(None)
        return found

    def _piece(self, partition: PartitionId) -> Piece:
        """The rest of a partition, after the last row that was returned."""
        own = next(one for one in self.pieces if one.partition == partition)
        return _behind(own, self.pieces[0])

    async def _read(self, piece: Piece, deadline: float) -> _Part:
        """The first rows of a local replica: scans all of them, in turns with other requests."""
        pod = self.reader.pod
        execution = ExecutionTrace(pod.clock, wanted=self.request.options.execution_info)
        started = pod.clock.monotonic_s()

        def produce(reading: Reading) -> tuple[TimedPlan, _RowIterator, _Row | None]:
            plan = visible(reading, self._narrowed(piece))
            rows = open_rows(reading, plan)
            # Read the first row now, so that the scan holds the state during the turns of others.
            return plan, rows, next(rows, None)

        reading, (plan, rows, row) = await read_prepared(
            pod, piece.partition, self.request, produce, piece.sequence
        )
        page: TimePage[_Row] = TimePage(*self._limits, reverse=plan.reverse)
        wanted = self._make_wanted(plan, piece)
        order_of = make_time_order(plan.type, piece.partition)
        looked_at = 0
        with pod.metrics.open_iterators.track_inprogress():
            while row is not None:
                if wanted(row[0]):
                    page.add(order_of(row[0]), len(row[0]) + len(row[1]), row)
                looked_at += 1
                if looked_at % LOOKED_AT_MAX == 0:
                    await self._pause(deadline)
                row = next(rows, None)
        lines = await self._lines(piece.partition, page.rows(), deadline)
        seconds = pod.clock.monotonic_s() - started
        execution.add("scan", seconds, f", {looked_at} rows scanned, {len(lines)} returned")
        answer = msgspec.structs.replace(reading.answer(), execution_info=execution.lines())
        return _Part(answer, lines, is_end=not page.is_cut)

    async def _pause(self, deadline: float) -> None:
        if self.reader.pod.clock.monotonic_s() >= deadline:
            raise deadline_exceeded()
        await asyncio.sleep(0)

    def _narrowed(self, piece: Piece) -> TimedPlan:
        """The plan without the times before the last row; it does not read their segments."""
        if piece.last_key is None:
            return self.request.plan
        time = time_in(piece.last_key, self.request.plan.type)
        if self.request.plan.reverse:
            return replace(self.request.plan, latest=min(self.request.plan.latest, time))
        return replace(self.request.plan, earliest=max(self.request.plan.earliest, time))

    def _make_wanted(self, plan: TimedPlan, piece: Piece) -> Callable[[bytes], bool]:
        matches = make_filter(plan)
        if piece.last_key is None:
            return matches
        order_of = make_time_order(plan.type, piece.partition)
        own = piece.partition if piece.last_partition is None else piece.last_partition
        last = make_time_order(plan.type, own)(piece.last_key)
        if plan.reverse:
            return lambda row_key: matches(row_key) and order_of(row_key) < last
        return lambda row_key: matches(row_key) and order_of(row_key) > last

    async def _lines(
        self,
        partition: PartitionId,
        rows: list[tuple[TimeOrder, _Row]],
        deadline: float,
    ) -> list[tuple[TimeOrder, _Line]]:
        write = make_timed_writer(
            self.request.codec, self.request.plan.shape, self.request.plan.times
        )
        lines: list[tuple[TimeOrder, _Line]] = []
        for order, (row_key, row) in rows:
            try:
                lines.append((order, self._kept((partition, row_key, write(row_key, row)))))
            except MalformedBytesError as error:
                raise unreadable(error) from error
            if len(lines) % CHUNK_ROWS_MAX == 0:
                await self._pause(deadline)
        return lines

    def _kept(self, line: _Line) -> _Line:
        """Counts a row of the page. Raises NoMemoryError."""
        if self.memory is not None:
            self.memory.take(len(line[1]) + len(line[2]))
        return line

    async def _read_at(self, pod: Ordinal, piece: Piece, timeout_s: float) -> _Part:
        """The first rows of a replica on another pod."""
        codec, plan = self.request.codec, self.request.plan
        cursor = encode_cursor([piece], plan, codec)
        part = PeerPart(
            partition=piece.partition,
            cursor=cursor,
            limit=self.budget.rows_left,
            timeout_s=timeout_s * PEER_SHARE_OF_TIME,
            bytes_max=self.budget.bytes_left,
            seconds_max=timeout_s,
        )
        address = self.reader.pod.registry.address(pod)
        stream = self.reader.peers.stream(address, self.make_peer_request(part), timeout_s)
        source = await open_remote(stream, piece, self.request, self.encoder)
        try:
            rows: list[tuple[TimeOrder, _Line]] = []
            order_of = make_time_order(plan.type, piece.partition)
            while some := await source.keyed_lines():
                for row_key, line in some:
                    rows.append((order_of(row_key), self._kept((piece.partition, row_key, line))))
            answer = source.ending().answer
        finally:
            await source.close()
        if not rows and not answer.end:
            raise MalformedBytesError(
                f"pod {address.name} sent no rows, although it has not reached the end"
            )
        return _Part(answer, rows, is_end=answer.end is True)


def _end_of(rows: list[tuple[TimeOrder, _Line]]) -> Piece:
    """The last row of a page, which has rows where partitions are left, as a Piece holds it."""
    if not rows:
        return Piece(PartitionId(0))
    partition, row_key, _ = rows[-1][1]
    return Piece(partition, row_key, last_partition=partition)


def _behind(piece: Piece, end: Piece) -> Piece:
    """The rest of a partition after the row at which a page of all partitions ended."""
    return replace(piece, last_key=end.last_key, last_partition=end.last_partition)


def _withheld(part: _Part | StoreError) -> PartitionAnswer:
    if isinstance(part, StoreError):
        return PartitionAnswer(end=False, failure=failure_of(part))
    return msgspec.structs.replace(part.answer, end=False)


def _answered(part: _Part | StoreError, *, is_end: bool) -> PartitionAnswer:
    if isinstance(part, StoreError):
        return PartitionAnswer(end=False, failure=failure_of(part))
    return msgspec.structs.replace(part.answer, end=is_end)
