"""Rows of one family at one moment, and their index rows at the same moment."""

from collections.abc import Iterator, Sequence

from qss_store.storage.engine import FamilyView, Get


class IndexedView:
    """A FamilyView of the rows; `index` is the view of the index rows. It owns both."""

    def __init__(self, rows: FamilyView, index: FamilyView) -> None:
        """Both views must be of the same moment."""
        self.rows = rows
        self.index = index

    def get(self, key: bytes) -> bytes | None:
        return self.rows.get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return self.rows.get_many(keys)

    def reader(self) -> Get:
        return self.rows.reader()

    def pin(self) -> None:
        self.rows.pin()
        self.index.pin()

    def scan(
        self, *, lower: bytes | None = None, upper: bytes | None = None, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        return self.rows.scan(lower=lower, upper=upper, reverse=reverse)

    def close(self) -> None:
        """Releases the state; a running scan keeps its own hold."""
        self.rows.close()
        self.index.close()
