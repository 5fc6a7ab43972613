"""Keeps the decoded rows of recently staged chunks for their commits.

A small batch is committed milliseconds after it was staged, and decoding its rows again takes more
time than writing them. A commit reads rows that are not kept from the changelog.
"""

import pyarrow as pa

from qss_core.model import Offset

_CHUNKS_MIN = 4  # A generation has room for as many of the largest chunks that are kept.

RecordBatches = tuple[pa.RecordBatch, ...]


class DecodedEntries:
    def __init__(self, recent: "DecodedRows") -> None:
        """Keeps the rows of one log in `recent`."""
        self._recent = recent

    def keep(self, offset: Offset, rows: RecordBatches) -> None:
        """Keeps the rows of the entry at `offset` for a while, if there are some."""
        if rows:
            self._recent.keep(self, offset, rows)

    def peek(self, offset: Offset) -> RecordBatches | None:
        """The kept rows of an entry, or None; the rows stay kept."""
        return self._recent.peek(self, offset)

    def take(self, offset: Offset) -> RecordBatches | None:
        """The kept rows of an entry, or None; the rows are no longer kept."""
        return self._recent.take(self, offset)

    def cut(self, offset: Offset) -> None:
        """Forgets the rows of entries from `offset` on: other entries take their place."""
        self._recent.cut(self, offset)


class DecodedRows:
    """The rows of a pod's small chunks, in two generations; the older one is forgotten first.

    Rows keep the body of their request in memory, so the bytes of whole bodies are counted.
    """

    def __init__(self, bytes_max: int) -> None:
        """`bytes_max` is the size of one generation."""
        self._bytes_max = bytes_max
        self._young: dict[tuple[object, Offset], RecordBatches] = {}
        self._old: dict[tuple[object, Offset], RecordBatches] = {}
        self._young_bytes = 0

    def admits(self, chunk_bytes: int) -> bool:
        """Whether the rows of a chunk of this size may be kept; counts the chunk if so."""
        if chunk_bytes > self._bytes_max // _CHUNKS_MIN:
            return False
        if self._young_bytes + chunk_bytes > self._bytes_max:
            self._old, self._young, self._young_bytes = self._young, {}, 0
        self._young_bytes += chunk_bytes
        return True

    def keep(self, owner: object, offset: Offset, rows: RecordBatches) -> None:
        """Keeps the rows of the entry at `offset` in the log of `owner`, for a while."""
        self._young[owner, offset] = rows

    def peek(self, owner: object, offset: Offset) -> RecordBatches | None:
        """The kept rows of an entry, or None; the rows stay kept."""
        key = (owner, offset)
        return self._young.get(key) or self._old.get(key)

    def take(self, owner: object, offset: Offset) -> RecordBatches | None:
        """The kept rows of an entry, or None; the rows are no longer kept."""
        key = (owner, offset)
        return self._young.pop(key, None) or self._old.pop(key, None)

    def cut(self, owner: object, offset: Offset) -> None:
        """Forgets the rows of a log's entries from `offset` on."""
        for kept in (self._young, self._old):
            for key in [key for key in kept if key[0] is owner and key[1] >= offset]:
                del kept[key]
