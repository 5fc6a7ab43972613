"""Rows of one family at one moment, and the rows of its indexes at the same moment."""

from collections.abc import Iterator, Sequence

from qss_store.storage.engine import FamilyView, Get


class IndexedView:
    """A FamilyView of the rows; `index` is the view of the index rows. It owns both."""

    def __init__(self, rows: FamilyView, index: FamilyView) -> None:
        """Both have to be of one moment."""
        self.rows = rows
        self.index = index

    def get(self, key: bytes) -> bytes | None:
        return self.rows.get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of many keys."""
        return self.rows.get_many(keys)

    def reader(self) -> Get:
        """Gets of this moment, also after `close`."""
        return self.rows.reader()

    def pin(self) -> None:
        """Holds both as they are."""
        self.rows.pin()
        self.index.pin()

    def scan(
        self, *, lower: bytes | None = None, upper: bytes | None = None, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Rows with lower <= key < upper in key order."""
        return self.rows.scan(lower=lower, upper=upper, reverse=reverse)

    def close(self) -> None:
        """Lets go of the moment; a scan that still runs keeps its own hold."""
        self.rows.close()
        self.index.close()
