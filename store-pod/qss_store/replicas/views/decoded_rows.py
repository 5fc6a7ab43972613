"""Rows that were staged lately, as they were decoded for their checks.

A small batch is committed milliseconds after it was staged, and to decode its rows again costs more
than to write them. What is not here any more is read from the changelog.
"""

import pyarrow as pa

from qss_core.model import Offset

CHUNK_BYTES_MAX = 1024 * 1024  # Larger ones cost more memory than they spare time.
_GENERATION_BYTES_MAX = 4 * 1024 * 1024

Batches = tuple[pa.RecordBatch, ...]


class DecodedEntries:
    def __init__(self, recent: "DecodedRows") -> None:
        """Nothing is there of it yet."""
        self._recent = recent

    def keep(self, offset: Offset, rows: Batches) -> None:
        """Keeps the rows of the entry at `offset` for a while, if there are some."""
        if rows:
            self._recent.keep(self, offset, rows)

    def peek(self, offset: Offset) -> Batches | None:
        """Those rows, which stay; None where they are not here (any more)."""
        return self._recent.peek(self, offset)

    def take(self, offset: Offset) -> Batches | None:
        """Those rows, once; None where they are not here (any more)."""
        return self._recent.take(self, offset)


class DecodedRows:
    """The rows of a pod's small chunks: two generations, of which the older one is forgotten.

    Rows hold on to the body of their request: so whole bodies are counted.
    """

    def __init__(self) -> None:
        self._young: dict[tuple[object, Offset], Batches] = {}
        self._old: dict[tuple[object, Offset], Batches] = {}
        self._young_bytes = 0

    def admits(self, chunk_bytes: int) -> bool:
        """Whether the rows of a chunk of this size may be kept; counts it, if so."""
        if chunk_bytes > CHUNK_BYTES_MAX:
            return False
        if self._young_bytes + chunk_bytes > _GENERATION_BYTES_MAX:
            self._old, self._young, self._young_bytes = self._young, {}, 0
        self._young_bytes += chunk_bytes
        return True

    def keep(self, owner: object, offset: Offset, rows: Batches) -> None:
        """Keeps the rows of the entry at `offset` in the log of `owner`, for a while."""
        self._young[owner, offset] = rows

    def peek(self, owner: object, offset: Offset) -> Batches | None:
        """Those rows, which stay; None where they are not here (any more)."""
        key = (owner, offset)
        return self._young.get(key) or self._old.get(key)

    def take(self, owner: object, offset: Offset) -> Batches | None:
        """Those rows, once; None where they are not here (any more)."""
        key = (owner, offset)
        return self._young.pop(key, None) or self._old.pop(key, None)
