"""The number of rows that a scan of RocksDB reads ahead."""

from collections.abc import Iterator
from typing import Any, cast

import pytest
from rocksdict import Rdict, RdictIter

from qss_store.storage.rocksdb.iterators import backward, forward, newest

MIB = 1024 * 1024
ROWS = [(b"%04d" % number, bytes(10 if number < 100 else MIB)) for number in range(140)]


class Family:
    """Rows in the form of rocksdict; counts the rows that were read."""

    def __init__(self) -> None:
        self.read = 0
        self._at = 0

    def items(self, from_key: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        for key, row in ROWS:
            if from_key is None or key >= from_key:
                self.read += len(row)
                yield key, row

    def seek(self, key: bytes) -> None:
        self._at = next((at for at, row in enumerate(ROWS) if row[0] >= key), len(ROWS))

    def seek_for_prev(self, key: bytes) -> None:
        self._at = next((at for at in reversed(range(len(ROWS))) if ROWS[at][0] <= key), -1)

    def seek_to_last(self) -> None:
        self._at = len(ROWS) - 1

    def valid(self) -> bool:
        return 0 <= self._at < len(ROWS)

    def key(self) -> bytes:
        return ROWS[self._at][0]

    def value(self) -> bytes:
        self.read += len(ROWS[self._at][1])
        return ROWS[self._at][1]

    def next(self) -> None:
        self._at += 1

    def prev(self) -> None:
        self._at -= 1

    def status(self) -> None:
        """The status of an iterator without errors."""


@pytest.mark.parametrize("scan", [newest, forward, backward])
def test_large_rows_are_read_one_by_one_wherever_they_lie(scan: Any) -> None:
    family, taken, found = Family(), 0, []
    for key, row in scan((cast(RdictIter, family), cast(Rdict, family)), None, None):
        taken += len(row)
        found.append(key)
        assert family.read <= taken + 2 * MIB
    keys = [key for key, _ in ROWS]
    assert found == (keys if scan is not backward else keys[::-1])
