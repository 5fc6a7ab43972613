"""Sources of the rows of one partition's scan: a local replica, or one on another pod.

A source is opened before any row of its partition is sent, so that another replica can still
replace it. After that all rows of the partition come from one state of one replica, which the
position in the answer requires.
"""

import asyncio
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from typing import Protocol

import msgspec

from qss_client.clock import Clock
from qss_core.errors import UnreachableError
from qss_core.model import Sequence
from qss_core.queries.requests import (
    MARK_START,
    ROW_START,
    PartitionAnswer,
    PartitionMark,
    decode_mark,
    error_of_failure,
)
from qss_store.reads.encode.json import ScanEncoder
from qss_store.reads.encode.rows_for_pods import ToldLines, row_key_of_line
from qss_store.reads.plans.dispatch import RowsPlan
from qss_store.reads.request import ReadRequest
from qss_store.reads.routing.admission import Reading
from qss_store.reads.routing.budget import ReadBudget
from qss_store.reads.routing.peer_reads import Lines
from qss_store.reads.routing.trace import ExecutionTrace
from qss_store.reads.scans.cursors import Piece, decode_cursor
from qss_store.reads.scans.open_scan import RowScan
from qss_store.reads.scans.replica_reads import NO_ROWS, SCAN_ROWS_MAX, Chunk
from qss_store.replicas.replica import Replica
from qss_store.runtime.heavy_turns import HeavyTurns

_PeerRow = tuple[bytes, bytes | None]  # A JSON line, and its row key if the pod sent it, too.


@dataclass(frozen=True, slots=True)
class Ending:
    """The answer of a partition whose rows were sent; `left` is the rest after a limit."""

    answer: PartitionAnswer
    left: Piece | None


class Source(Protocol):
    """Rows of one partition, a chunk at a time."""

    async def more(self) -> Chunk:
        """The next rows; empty at the end, or when the budget is spent."""

    def ending(self) -> Ending: ...

    def left_after_failure(self) -> Piece:
        """The rest of the partition after a failure of `more`."""

    async def close(self) -> None:
        """Releases the state of the replica."""


class LocalSource:
    """Rows of a replica of this pod."""

    def __init__(
        self,
        scan: RowScan,
        reading: Reading,
        budget: ReadBudget,
        clock: Clock,
        turns: HeavyTurns,
        execution: ExecutionTrace,
        patience_s: float,
    ) -> None:
        """Owns the scan. It ends after `patience_s` without a row; the cursor continues there."""
        self._scan = scan
        self._reading = reading
        self._budget = budget
        self._clock = clock
        self._turns = turns
        self._execution = execution
        self._patience_s = patience_s
        self._seconds = 0.0
        self._has_begun = False

    @property
    def sequence(self) -> Sequence:
        """The sequence of the state that all rows come from."""
        return self._scan.sequence

    @property
    def replica(self) -> Replica:
        """The replica that is read; another one may have its place by now."""
        return self._reading.replica

    async def more(self) -> Chunk:
        now = self._clock.monotonic_s()
        until = now + self._patience_s
        while not (self._scan.is_over or self._budget.is_spent(now) or now >= until):
            if self._has_begun:
                await asyncio.sleep(0)  # Other requests take their turn.
            self._has_begun = True
            left = self._budget.rows_left
            async with self._turns:
                started = self._clock.monotonic_s()
                chunk = self._scan.take(SCAN_ROWS_MAX if left is None else left)
                now = self._clock.monotonic_s()
            self._seconds += now - started
            if chunk.row_count:
                return chunk
        return NO_ROWS

    def ending(self) -> Ending:
        """The answer, with the state that all rows came from."""
        self._execution.add("scan", self._seconds, f", {self._scan.told}")
        answer = msgspec.structs.replace(
            self._reading.answer(),
            end=self._scan.is_over,
            execution_info=self._execution.lines(),
        )
        return Ending(answer, None if self._scan.is_over else self.left_after_failure())

    def left_after_failure(self) -> Piece:
        """The rows after the last row that was returned."""
        return Piece(self._reading.partition, self._scan.last_key, self._scan.sequence)

    async def close(self) -> None:
        self._scan.close()


class RemoteSource:
    """A replica of another pod; its rows come as JSON."""

    def __init__(
        self,
        lines: Lines,
        stack: AsyncExitStack,
        start: Piece,
        request: ReadRequest[RowsPlan],
        encoder: ScanEncoder,
    ) -> None:
        """Owns `stack`, which holds the connection."""
        self._lines = lines
        self._stack = stack
        self._start = start
        self._request = request
        self._encoder = encoder
        self._told = ToldLines()
        self._first: list[_PeerRow] = []
        self._last_row: _PeerRow | None = None
        self._mark: PartitionMark | None = None

    async def begin(self) -> None:
        """Waits for the first rows. Raises the peer's failure if it has no rows."""
        self._first = await self._next()

    async def more(self) -> Chunk:
        rows = await self._take()
        return (
            Chunk(len(rows), self._encoder.of_lines([row for row, _ in rows])) if rows else NO_ROWS
        )

    async def keyed_lines(self) -> list[tuple[bytes, bytes]]:
        """The next rows, each as its row key and its JSON line."""
        return [(self._key_of(row), row[0]) for row in await self._take()]

    async def _take(self) -> list[_PeerRow]:
        rows = self._first or await self._next()
        self._first = []
        if rows:
            self._last_row = rows[-1]
        return rows

    async def _next(self) -> list[_PeerRow]:
        """The next rows; none at the end."""
        rows: list[_PeerRow] = []
        while not rows and self._mark is None:
            lines = await self._lines.more()
            if not lines:
                raise UnreachableError("the other pod's answer broke off between its rows")
            if lines[-1].startswith(MARK_START):
                self._mark = decode_mark(lines.pop())
            rows = self._told.rows(lines, ROW_START)
            if self._mark is not None and self._mark.failure is not None and not rows:
                raise error_of_failure(self._mark.failure)
        return rows

    def _key_of(self, row: _PeerRow) -> bytes:
        line, told = row
        if told is not None:
            return told
        return row_key_of_line(line, self._request.plan, self._request.codec)

    def ending(self) -> Ending:
        mark = self._mark
        assert mark is not None, "a source that gives no more rows has its mark"
        if mark.failure is not None:
            raise error_of_failure(mark.failure)
        left = None
        if mark.end is False:
            pieces = decode_cursor(mark.cursor or "", self._request.plan, self._request.codec)
            left = next(iter(pieces), None)
        members = {name: getattr(mark, name) for name in PartitionAnswer.__struct_fields__}
        return Ending(PartitionAnswer(**members), left)

    def left_after_failure(self) -> Piece:
        """The rows after the last row that was returned; only now its key is decoded."""
        if self._last_row is None:
            return self._start
        told = self._told.sequence or self._start.sequence
        sequence = max(self._start.sequence, told)
        return Piece(self._start.partition, self._key_of(self._last_row), sequence)

    async def close(self) -> None:
        await self._stack.aclose()


async def open_remote(
    stream: AbstractAsyncContextManager[Lines],
    start: Piece,
    request: ReadRequest[RowsPlan],
    encoder: ScanEncoder,
) -> RemoteSource:
    """Opens a source, and waits for its first rows or its end."""
    async with AsyncExitStack() as stack:
        lines = await stack.enter_async_context(stream)
        source = RemoteSource(lines, stack.pop_all(), start, request, encoder)
    try:
        await source.begin()
    except BaseException:
        await source.close()
        raise
    return source
