"""Reads the parts of a short scan that other pods have, while this pod reads its own."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from itertools import islice

from qss_core.model import PartitionId
from qss_store.reads.scans.cursors import Piece
from qss_store.reads.scans.replica_reads import NO_ROWS, Chunk
from qss_store.reads.scans.sources import Ending, Source

_AT_ONCE = 16  # So many parts of a scan are read at a time.
_BYTES_MAX = 256 * 1024  # Of one part; a larger one is read again in its turn.


@dataclass(slots=True)
class EarlyPart:
    """All rows of one partition, as a Source."""

    piece: Piece
    chunks: list[Chunk]
    rows: int
    whole: Ending

    async def more(self) -> Chunk:
        return self.chunks.pop(0) if self.chunks else NO_ROWS

    def ending(self) -> Ending:
        return self.whole

    def left_after_failure(self) -> Piece:
        return self.piece

    async def close(self) -> None:
        """Releases nothing: the rows are in memory."""


class EarlyParts:
    """The parts that are being read; `take` them in their order, and `close` at the end."""

    def __init__(
        self, open_part: Callable[[Piece], Awaitable[Source]], pieces: Iterable[Piece]
    ) -> None:
        """Begins to read the first pieces."""
        self._open = open_part
        self._tasks: dict[PartitionId, asyncio.Task[EarlyPart | None]] = {
            piece.partition: asyncio.create_task(self._read(piece))
            for piece in islice(pieces, _AT_ONCE)
        }

    async def take(self, piece: Piece, rows_left: int | None) -> EarlyPart | None:
        """The part, if it was read, and is whole within the limits.

        Raises StoreError where its pods gave none.
        """
        task = self._tasks.get(piece.partition)
        part = None if task is None else await task
        return part if part and (rows_left is None or part.rows <= rows_left) else None

    async def close(self) -> None:
        """Ends the reads that still run."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _read(self, piece: Piece) -> EarlyPart | None:
        source = await self._open(piece)
        try:
            chunks: list[Chunk] = []
            size = 0
            while (chunk := await source.more()).row_count:
                chunks.append(chunk)
                size += len(chunk.data)
                if size > _BYTES_MAX:
                    return None
            ending = source.ending()
            rows = sum(chunk.row_count for chunk in chunks)
            return EarlyPart(piece, chunks, rows, ending) if ending.left is None else None
        finally:
            await source.close()
