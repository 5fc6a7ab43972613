"""Takes the rows of a scan in chunks."""

from collections.abc import Iterator
from itertools import accumulate
from operator import add

from qss_store.storage.stretches import Row, stretches_of

Taken = tuple[list[bytes], list[bytes]]  # Row keys, and as many rows.


class ReadAhead:
    """Holds the next stretch of rows, until there are none."""

    def __init__(self, rows: Iterator[Row], bytes_max: int) -> None:
        """`take` ends with the row that reaches `bytes_max` bytes of keys and rows."""
        self._source = stretches_of(rows, bytes_max)
        self._bytes_max = bytes_max
        self._keys: list[bytes] = []
        self._rows: list[bytes] = []
        self._size = 0  # Bytes of the held keys and rows.
        self._read()

    @property
    def is_over(self) -> bool:
        return not self._keys

    def take(self, rows_max: int) -> Taken:
        """The next rows, empty at the end. Raises the errors of the source."""
        while len(self._keys) < rows_max and self._size < self._bytes_max and self._read():
            pass
        count = min(rows_max, self._fitting)
        if count < len(self._keys):
            taken = self._keys[:count], self._rows[:count]
            del self._keys[:count], self._rows[:count]
            self._size -= _bytes_of(*taken)
        else:
            taken = self._keys, self._rows
            self._keys, self._rows, self._size = [], [], 0
            self._read()
        return taken

    def put_back(self, keys: list[bytes], rows: list[bytes]) -> None:
        """Puts back the rows that were taken last."""
        self._keys[:0], self._rows[:0] = keys, rows
        self._size += _bytes_of(keys, rows)

    def _read(self) -> bool:
        """Reads the next stretch; returns whether there is one."""
        some = next(self._source, None)
        if some is None:
            return False
        self._keys += some.keys
        self._rows += some.rows
        self._size += some.size
        return True

    @property
    def _fitting(self) -> int:
        """The number of held rows that may be taken, with the row that reaches the limit."""
        if self._size < self._bytes_max:
            return len(self._keys)
        sizes = accumulate(map(add, map(len, self._keys), map(len, self._rows)))
        return next(count for count, size in enumerate(sizes, 1) if size >= self._bytes_max)


def _bytes_of(keys: list[bytes], rows: list[bytes]) -> int:
    return sum(map(len, keys)) + sum(map(len, rows))
