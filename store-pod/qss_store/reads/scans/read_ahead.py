"""The rows of a scan, some at a time: as many as one chunk of an answer may have."""

from collections.abc import Iterator
from itertools import accumulate, islice
from operator import add

from qss_store.storage.views.converted import Row

_FIRST_ROWS = 16  # Before it is known how large the rows are.
Taken = tuple[list[bytes], list[bytes]]  # Row keys, and as many rows.


class ReadAhead:
    """Rows that were not taken yet: one of them at least is here, while there are any."""

    def __init__(self, rows: Iterator[Row], bytes_max: int) -> None:
        """With `bytes_max` bytes of keys and rows, no other row is taken."""
        self._source = rows
        self._bytes_max = bytes_max
        self._fitting = _FIRST_ROWS
        self._keys: list[bytes] = []
        self._rows: list[bytes] = []
        self._read(1)

    @property
    def is_over(self) -> bool:
        return not self._keys

    def take(self, rows_max: int) -> Taken:
        """The next rows; none at the end. Raises what the source raises."""
        size = _bytes_of(self._keys) + _bytes_of(self._rows)
        while len(self._keys) < rows_max and size < self._bytes_max:
            wanted = min(self._fitting, rows_max - len(self._keys))
            more = self._read(wanted, self._bytes_max - size)
            if more is None:
                break
            size += more
            # The next ones are about as large: few of them are read too early.
            self._fitting = max(1, self._bytes_max * len(self._keys) // max(1, size))
        count = min(rows_max, self._fitting_of(size))
        taken = self._keys[:count], self._rows[:count]
        del self._keys[:count], self._rows[:count]
        if not self._keys:
            self._read(1)
        return taken

    def put_back(self, keys: list[bytes], rows: list[bytes]) -> None:
        """What was taken last and is to come still."""
        self._keys[:0], self._rows[:0] = keys, rows

    def _read(self, count: int, bytes_max: int = 0) -> int | None:
        """How many bytes so many rows have; fewer rows where these have more. None at the end."""
        size: int | None = None
        for key, row in islice(self._source, count):
            self._keys.append(key)
            self._rows.append(row)
            size = (size or 0) + len(key) + len(row)
            if size >= bytes_max:
                break
        return size

    def _fitting_of(self, size: int) -> int:
        """How many of the rows here may be taken, the one that reaches the limit among them."""
        if size < self._bytes_max:
            return len(self._keys)
        sizes = accumulate(map(add, map(len, self._keys), map(len, self._rows)))
        return next(count for count, size in enumerate(sizes, 1) if size >= self._bytes_max)


def _bytes_of(some: list[bytes]) -> int:
    return sum(map(len, some))
