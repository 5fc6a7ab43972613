"""How much memory a pod holds for staged rows that readers have asked to see."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from qss_core.errors import UncommittedTooLargeError
from qss_store.transactions.staged import StagedChunk

# Of a row: its objects and its place in a sorted list.
_ROW_BYTES = 250


class Holder(Protocol):
    """Who holds some of it."""

    def forget(self) -> None:
        """Gives it up; it can be made again."""


def bytes_of(chunks: tuple[StagedChunk, ...]) -> int:
    """About how much memory the rows of staged slices take."""
    return sum(one.payload_bytes + _ROW_BYTES * one.records for one in chunks)


def bytes_of_keys(keys: Sequence[bytes]) -> int:
    """About how much memory rows without values take."""
    return sum(map(len, keys)) + _ROW_BYTES * len(keys)


class UncommittedMemory:
    """The memory of one pod: who was asked longest ago makes room for who is asked now."""

    def __init__(self, bytes_max: int) -> None:
        self.making = asyncio.Lock()  # What one is about to hold is beside what all hold.
        self._bytes_max = bytes_max
        self._held: dict[Holder, int] = {}

    def check(self, size: int) -> None:
        """Raises UncommittedTooLargeError where it would be too much even alone."""
        if size > self._bytes_max:
            raise UncommittedTooLargeError(
                f"the staged rows of the partition take about {size} bytes, more than "
                f"uncommitted_rows_bytes_max ({self._bytes_max}): ask with "
                "isolation=READ_COMMITTED, or raise QSS_UNCOMMITTED_ROWS_BYTES_MAX",
                limit="uncommitted_rows_bytes_max",
            )

    def hold(self, holder: Holder, size: int) -> None:
        """Counts what somebody holds from now on, in place of what it held."""
        self._held.pop(holder, None)
        while self._held and sum(self._held.values()) + size > self._bytes_max:
            next(iter(self._held)).forget()
        self._held[holder] = size

    def release(self, holder: Holder) -> None:
        """Somebody holds nothing any more."""
        self._held.pop(holder, None)

    @property
    def held_bytes(self) -> int:
        return sum(self._held.values())
