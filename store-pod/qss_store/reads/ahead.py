"""The rows of a scan, some at a time: as many as one answer's chunk may hold."""

from collections.abc import Iterator
from itertools import chain, islice

from qss_store.engine.migrating import Row

_FIRST_ROWS = 16  # Before it is known how large the rows are.


class RowsAhead:
    """Rows that were not taken yet; at least one is here while there are any."""

    def __init__(self, rows: Iterator[Row], bytes_max: int) -> None:
        """`bytes_max`: with how many bytes of keys and rows no other row is taken."""
        self._rows = rows
        self._bytes_max = bytes_max
        self._fitting = _FIRST_ROWS
        self._ahead = list(islice(rows, 1))

    @property
    def is_over(self) -> bool:
        """Whether all were taken."""
        return not self._ahead

    def take(self, rows_max: int) -> list[Row]:
        """The next rows; none at the end. Raises what the rows raise, and has taken none then."""
        rows = self._ahead
        size = _bytes_of(rows)
        while len(rows) < rows_max and size < self._bytes_max:
            some = list(islice(self._rows, min(self._fitting, rows_max - len(rows))))
            if not some:
                break
            rows += some
            size += _bytes_of(some)
            # Rows are about as large as those before: few of them are read to be put back.
            self._fitting = max(1, self._bytes_max * len(rows) // max(1, size))
        taken = rows[: min(rows_max, self._places(rows, size))]
        self._ahead = rows[len(taken) :] or list(islice(self._rows, 1))
        return taken

    def put_back(self, rows: list[Row]) -> None:
        """Rows of the last `take` that are the next ones still."""
        self._ahead = rows + self._ahead

    def _places(self, rows: list[Row], size: int) -> int:
        """How many rows fit, the one with which they have enough among them."""
        if size < self._bytes_max:
            return len(rows)
        size = 0
        for count, (key, row) in enumerate(rows, 1):
            size += len(key) + len(row)
            if size >= self._bytes_max:
                return count
        return len(rows)


def _bytes_of(rows: list[Row]) -> int:
    return sum(map(len, chain.from_iterable(rows)))
