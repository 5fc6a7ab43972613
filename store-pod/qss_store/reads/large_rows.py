"""The sizes of large rows that were read lately.

Reading and encoding a row of 1 MB holds the event loop for milliseconds, and only the first read
shows that the row is large. So the next read of it takes memory and waits for a turn before it
reads.
"""

from qss_core.model import PartitionId

LARGE_ROW_BYTES = 64 * 1024
_ROWS_MAX = 4096


class LargeRows:
    """Remembers the sizes of some thousand rows by a hash; keys with equal hashes share a size."""

    def __init__(self) -> None:
        self._sizes: dict[int, int] = {}

    def size_of(self, partition: PartitionId, key: bytes) -> int:
        """The bytes of the row at its last read; 0 if it was small or was not read lately."""
        sizes = self._sizes
        return sizes.get(hash((partition, key)), 0) if sizes else 0

    def note(self, partition: PartitionId, key: bytes, size: int) -> None:
        """Remembers the size that a read found; 0 bytes for an absent row."""
        sizes = self._sizes
        if size <= LARGE_ROW_BYTES:
            if sizes:
                sizes.pop(hash((partition, key)), None)
            return
        if len(sizes) >= _ROWS_MAX:
            del sizes[next(iter(sizes))]
        sizes[hash((partition, key))] = size
