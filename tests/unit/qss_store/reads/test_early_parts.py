"""Parts of a scan that other pods read while this pod reads its own."""

import asyncio
from collections.abc import Sequence

import pytest

from qss_core.errors import StoreError, UnreachableError
from qss_core.model import PartitionId
from qss_core.queries.requests import PartitionAnswer
from qss_store.reads.early_parts import EarlyParts
from qss_store.reads.scans.cursors import Piece
from qss_store.reads.scans.replica_reads import NO_ROWS, Chunk
from qss_store.reads.scans.sources import Ending, Source

PIECES = [Piece(PartitionId(number)) for number in range(3)]


class Rows:
    """A source of chunks that tells when it is closed."""

    def __init__(self, chunks: Sequence[Chunk], left: Piece | None, closed: list[int]) -> None:
        self.chunks = list(chunks)
        self.left = left
        self.closed = closed

    async def more(self) -> Chunk:
        return self.chunks.pop(0) if self.chunks else NO_ROWS

    def ending(self) -> Ending:
        return Ending(PartitionAnswer(end=self.left is None), self.left)

    def left_after_failure(self) -> Piece:
        return PIECES[0]

    async def close(self) -> None:
        self.closed.append(1)


async def rows_of(part: Source) -> list[bytes]:
    found = []
    while (chunk := await part.more()).row_count:
        found.append(chunk.data)
    return found


async def test_all_parts_are_asked_for_at_the_same_time() -> None:
    together, closed = asyncio.Barrier(len(PIECES)), list[int]()

    async def open_part(piece: Piece) -> Source:
        await together.wait()  # Nobody passes alone.
        return Rows([Chunk(2, b"%d" % piece.partition)], None, closed)

    parts = EarlyParts(open_part, PIECES)
    for piece in PIECES:
        async with asyncio.timeout(10):
            part = await parts.take(piece, 10)
        assert part is not None
        assert part.rows == 2
        assert await rows_of(part) == [b"%d" % piece.partition]
        assert part.ending() == Ending(PartitionAnswer(end=True), None)
    assert len(closed) == len(PIECES)
    assert await parts.take(Piece(PartitionId(7)), 10) is None
    await parts.close()


@pytest.mark.parametrize(
    ("chunks", "left", "rows_left"),
    [
        ([Chunk(3, b"abc")], None, 2),
        ([Chunk(3, b"abc")], PIECES[0], 10),
        ([Chunk(1, bytes(200_000)), Chunk(1, bytes(100_000))], None, 10),
    ],
    ids=["more rows than are left", "not all rows", "too large"],
)
async def test_a_part_that_does_not_fit_is_read_in_its_turn(
    chunks: list[Chunk], left: Piece | None, rows_left: int
) -> None:
    closed: list[int] = []

    async def open_part(_: Piece) -> Source:
        return Rows(chunks, left, closed)

    parts = EarlyParts(open_part, PIECES[:1])
    assert await parts.take(PIECES[0], rows_left) is None
    assert closed == [1]
    await parts.close()


async def test_a_failure_is_that_of_its_part() -> None:
    async def open_part(piece: Piece) -> Source:
        if piece == PIECES[1]:
            raise UnreachableError("pod words-1 does not answer")
        return Rows([], None, [])

    parts = EarlyParts(open_part, PIECES)
    assert await parts.take(PIECES[0], None) is not None
    with pytest.raises(StoreError, match="words-1 does not answer"):
        await parts.take(PIECES[1], None)
    await parts.close()


async def test_what_nobody_takes_is_ended_and_closed() -> None:
    begun, closed = asyncio.Event(), list[int]()

    class Endless(Rows):
        async def more(self) -> Chunk:
            begun.set()
            await asyncio.Event().wait()
            return NO_ROWS

    async def open_part(_: Piece) -> Source:
        return Endless([], None, closed)

    parts = EarlyParts(open_part, PIECES[:1])
    await begun.wait()
    await parts.close()
    assert closed == [1]
