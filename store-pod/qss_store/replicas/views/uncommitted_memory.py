"""Limits the memory of a pod for staged rows that its readers see."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from qss_core.errors import UncommittedTooLargeError
from qss_store.transactions.staged import StagedChunk

# The memory of a row beside its bytes: its objects and its place in a sorted list.
_ROW_BYTES = 250


class Holder(Protocol):
    """A replica whose staged rows take some of the memory."""

    def forget(self) -> None:
        """Releases the memory; the rows can be made again."""


def bytes_of(chunks: tuple[StagedChunk, ...]) -> int:
    """About how much memory the rows of staged slices take."""
    return sum(one.payload_bytes + _ROW_BYTES * one.records for one in chunks)


def bytes_of_keys(keys: Sequence[bytes]) -> int:
    """About how much memory rows without values take."""
    return sum(map(len, keys)) + _ROW_BYTES * len(keys)


class UncommittedMemory:
    """The memory of one pod; the replica that was read longest ago releases its rows first."""

    def __init__(self, bytes_max: int) -> None:
        # One replica at a time makes rows: they are not counted before they are made.
        self.making = asyncio.Lock()
        self._bytes_max = bytes_max
        self._held: dict[Holder, int] = {}

    def check(self, size: int) -> None:
        """Raises UncommittedTooLargeError where rows of this size alone exceed the limit."""
        if size > self._bytes_max:
            raise UncommittedTooLargeError(
                f"the staged rows of the partition take about {size} bytes, more than "
                f"uncommitted_rows_bytes_max ({self._bytes_max}): ask with "
                "isolation=READ_COMMITTED, or raise QSS_UNCOMMITTED_ROWS_BYTES_MAX",
                limit="uncommitted_rows_bytes_max",
            )

    def hold(self, holder: Holder, size: int) -> None:
        """Sets the memory of a holder; other holders release theirs where it exceeds the limit."""
        self._held.pop(holder, None)
        while self._held and sum(self._held.values()) + size > self._bytes_max:
            next(iter(self._held)).forget()
        self._held[holder] = size

    def release(self, holder: Holder) -> None:
        """Sets the memory of a holder to nothing."""
        self._held.pop(holder, None)
