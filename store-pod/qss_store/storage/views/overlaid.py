"""A family's rows at one moment, under newer rows that are only in memory."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence

from sortedcontainers import SortedDict

from qss_store.storage.engine import FamilyView, Get
from qss_store.storage.stretches import Row

AnyRow = tuple[bytes, bytes | None]


class SortedRows:
    """Rows by key, where None deletes; they never change, so any scan may keep them."""

    __slots__ = ("_keys", "_rows")

    def __init__(self, rows: Mapping[bytes, bytes | None], keys: Sequence[bytes]) -> None:
        """`keys` are the sorted keys of `rows`; use `with_rows`."""
        self._rows = rows
        self._keys = keys

    def with_rows(self, newer: Mapping[bytes, bytes | None]) -> "SortedRows":
        """The given rows with newer rows, which win."""
        rows = {**self._rows, **newer}
        # Sorting two sorted lists takes one pass.
        keys = [*self._keys, *sorted(key for key in newer if key not in self._rows)]
        keys.sort()
        return SortedRows(rows, keys)

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, key: bytes) -> bool:
        return key in self._rows

    def get(self, key: bytes) -> bytes | None:
        """The value; None if the key is deleted, or is not here."""
        return self._rows.get(key)

    def scan(
        self, lower: bytes | None, upper: bytes | None, *, reverse: bool
    ) -> Iterator[tuple[bytes, bytes | None]]:
        """Rows with lower <= key < upper, including deleted ones."""
        keys, rows = self._keys, self._rows
        first = 0 if lower is None else bisect_left(keys, lower)
        end = len(keys) if upper is None else bisect_left(keys, upper)
        places = range(end - 1, first - 1, -1) if reverse else range(first, end)
        return ((keys[place], rows[keys[place]]) for place in places)


NO_ROWS = SortedRows({}, [])


class GrowingRows:
    """Rows by key, where None deletes. Rows can be added, and running scans see them."""

    def __init__(self) -> None:
        self.rows: SortedDict[bytes, bytes | None] = SortedDict()

    def put(self, keys: Iterable[bytes], values: Iterable[bytes | None]) -> None:
        """Adds rows, which win over earlier ones."""
        self.rows.update(zip(keys, values, strict=True))

    def __len__(self) -> int:
        return len(self.rows)

    def __contains__(self, key: bytes) -> bool:
        return key in self.rows

    def get(self, key: bytes) -> bytes | None:
        """The value; None if the key is deleted, or is not here."""
        value: bytes | None = self.rows.get(key)
        return value

    def scan(
        self, lower: bytes | None, upper: bytes | None, *, reverse: bool
    ) -> Iterator[tuple[bytes, bytes | None]]:
        """Rows with lower <= key < upper, including deleted ones."""
        keys = self.rows.irange(lower, upper, inclusive=(True, False), reverse=reverse)
        return ((key, self.rows[key]) for key in keys)


class OverlaidView:
    """A FamilyView of rows with newer rows over them; other objects own both."""

    def __init__(self, below: FamilyView | None, above: SortedRows | GrowingRows) -> None:
        """`above` wins; without `below` it has all rows."""
        self._below = below
        self._above = above

    def get(self, key: bytes) -> bytes | None:
        if key in self._above or self._below is None:
            return self._above.get(key)
        return self._below.get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        above = self._above
        values = [above.get(key) for key in keys]
        places = [place for place, key in enumerate(keys) if key not in above]
        if places and self._below is not None:
            found = self._below.get_many([keys[place] for place in places])
            for place, value in zip(places, found, strict=True):
                values[place] = value
        return values

    def reader(self) -> Get:
        """A function that gets rows of this moment, also after `close`."""
        above, below = self._above, None if self._below is None else self._below.reader()

        def get(key: bytes) -> bytes | None:
            return above.get(key) if key in above or below is None else below(key)

        return get

    def pin(self) -> None:
        """Does nothing: the owner pins its rows."""

    def scan(
        self, *, lower: bytes | None = None, upper: bytes | None = None, reverse: bool = False
    ) -> Iterator[Row]:
        above = self._above.scan(lower, upper, reverse=reverse)
        # Opened now, not at the first row: the owner may close `below`.
        below = (
            iter(())
            if self._below is None
            else self._below.scan(lower=lower, upper=upper, reverse=reverse)
        )
        if not len(self._above):
            return below
        merged = (_merged_backward if reverse else _merged_forward)(above, below)
        return ((key, row) for key, row in merged if row is not None)

    def close(self) -> None:
        """Does nothing: the owner closes its rows."""


def _merged_forward(newer: Iterator[AnyRow], older: Iterator[Row]) -> Iterator[AnyRow]:
    """Merges two scans by key; the newer row of a key wins."""
    old = next(older, None)
    for row in newer:
        while old is not None and old[0] <= row[0]:
            if old[0] != row[0]:
                yield old
            old = next(older, None)
        yield row
    if old is not None:
        yield old
        yield from older


def _merged_backward(newer: Iterator[AnyRow], older: Iterator[Row]) -> Iterator[AnyRow]:
    """As `_merged_forward`, from the last row on."""
    old = next(older, None)
    for row in newer:
        while old is not None and old[0] >= row[0]:
            if old[0] != row[0]:
                yield old
            old = next(older, None)
        yield row
    if old is not None:
        yield old
        yield from older
