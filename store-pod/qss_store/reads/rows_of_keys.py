"""Reads the rows of many keys from one state, as long as the answer has room for them."""

from contextlib import suppress

from qss_core.errors import StoreError, TooLargeError
from qss_store.reads.routing.admission import Reading
from qss_store.runtime.request_memory import MemoryShare

_READ_AT_ONCE = 32  # Rows of at most 8 MiB each: only what was read is counted.
_READ_BYTES = 1024 * 1024
_COPIES = 3  # Copies of each row: as stored, as JSON, and in the answer.
RowsOrFailures = list[bytes | StoreError | None]


class RowsOfKeys:
    """Reads the rows of one answer, and counts their bytes."""

    def __init__(self, answer_bytes_max: int) -> None:
        """After `answer_bytes_max` bytes of rows, `read` gives a TooLargeError for each key."""
        self._limit = answer_bytes_max
        self.bytes_left = answer_bytes_max
        self.memory: MemoryShare | None = None  # Counts the bytes of the rows, if it is set.

    def read(self, keys: list[bytes], reading: Reading) -> RowsOrFailures:
        """The rows of keys, each read once; few at a time, while the answer has room."""
        if len(keys) <= _READ_AT_ONCE and len({*keys}) == len(keys):
            return self._some(reading, keys)
        unread = [*dict.fromkeys(keys)]
        rows: RowsOrFailures = []
        count = _READ_AT_ONCE
        while len(rows) < len(unread):
            left = self.bytes_left
            some = self._some(reading, unread[len(rows) : len(rows) + count])
            rows += some
            # As if each of the next rows were as large as these together: few exceed the memory.
            together = left - self.bytes_left
            count = max(1, min(_READ_AT_ONCE, _READ_BYTES // (together + 1)))
        if len(unread) == len(keys):
            return rows
        found, seen = dict(zip(unread, rows, strict=True)), set[bytes]()
        rows = []
        for key in keys:
            rows.append(self._again(found[key]) if key in seen else found[key])
            seen.add(key)
        return rows

    def _some(self, reading: Reading, keys: list[bytes]) -> RowsOrFailures:
        values: list[bytes | None] | None = None
        with suppress(StoreError):  # Single reads find out which key has the error.
            self._check_room()
            values = reading.view.rows.get_many(keys)
        if values is not None and (size := sum(map(len, filter(None, values)))) <= self.bytes_left:
            self._takes(size)
            return [*values]
        return [self._row(reading, key) for key in keys]

    def _again(self, row: bytes | StoreError | None) -> bytes | StoreError | None:
        """The row of a repeated key: its bytes are in the answer again."""
        if not isinstance(row, bytes):
            return row
        try:
            self._check_room()
        except StoreError as error:
            return error.with_traceback(None)
        self._takes(len(row))
        return row

    def _takes(self, size: int) -> None:
        self.bytes_left -= size
        if self.memory is not None:
            self.memory.take(_COPIES * size)

    def _row(self, reading: Reading, key: bytes) -> bytes | StoreError | None:
        """Reads one row, after a read of several failed or the answer has little room."""
        try:
            self._check_room()
            row = reading.view.rows.get(key)
        except StoreError as error:
            return error.with_traceback(None)
        self._takes(len(row or b""))
        return row

    def _check_room(self) -> None:
        if self.bytes_left <= 0:
            raise TooLargeError(
                f"the values before this key are {self._limit} bytes or more: ask for it apart",
                limit=self._limit,
            )
