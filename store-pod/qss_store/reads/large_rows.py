"""The sizes of large rows that were read lately.

To read and to write a row of 1 MB holds the loop for some milliseconds, and only the read tells
that it is one. So who asks for it again takes its memory and waits for a turn before the read.
"""

from qss_core.model import PartitionId

LARGE_ROW_BYTES = 64 * 1024
_ROWS_MAX = 4096


class LargeRows:
    """Remembers some thousand rows by a hash of their keys: two with one hash share a size."""

    def __init__(self) -> None:
        self._sizes: dict[int, int] = {}

    def size_of(self, partition: PartitionId, key: bytes) -> int:
        """The bytes that the row had; 0 where it was not large, or was not read lately."""
        sizes = self._sizes
        return sizes.get(hash((partition, key)), 0) if sizes else 0

    def note(self, partition: PartitionId, key: bytes, size: int) -> None:
        """Remembers what a read has found; 0 bytes where there is no row."""
        sizes = self._sizes
        if size <= LARGE_ROW_BYTES:
            if sizes:
                sizes.pop(hash((partition, key)), None)
            return
        if len(sizes) >= _ROWS_MAX:
            del sizes[next(iter(sizes))]
        sizes[hash((partition, key))] = size
