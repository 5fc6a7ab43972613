"""Places the rows of a commit in a store with indexes: rows and their index rows.

A row's index rows depend on the row alone. In the batch that writes a row, the old row's index rows
are deleted and the new row's are put. So the index fits the rows after each write, and a commit
that is applied again, after any of its writes, gives the same result.
"""

from collections.abc import Callable

import pyarrow as pa

from qss_client.chunks.row_keys import Numbers
from qss_core.formats.values import Format, decode_value
from qss_store.storage.family_names import ColumnFamilies
from qss_store.storage.index_keys import Indexing
from qss_store.storage.placement.placed_rows import Placed, Present, StoreRows

ValueBefore = Callable[[bytes], bytes | None]  # The value of a key before the placed rows.


class WithIndexRows:
    """Places the rows of one commit."""

    def __init__(self, families: ColumnFamilies, before: ValueBefore) -> None:
        """`families` has an index; `before` reads rows with the earlier slices."""
        assert families.indexing is not None
        assert families.index is not None
        self._indexing: Indexing = families.indexing
        self._index = families.index
        self._rows = families.name
        self._format = families.format
        self._before = before

    def place(self, rows: pa.RecordBatch) -> Placed:
        return Placed(rows)

    def split(
        self, keys: list[bytes], values: list[bytes | None], _places: Numbers | None
    ) -> list[StoreRows]:
        """The rows and the index rows. Raises StoreTypeFailedError; then nothing is written."""
        changes: dict[bytes, bytes | None] = {}
        placed: dict[bytes, bytes | None] = {}
        for key, row in zip(keys, values, strict=True):
            before = placed[key] if key in placed else self._before(key)
            after = None if row is None else decode_value(self._format, row)
            placed[key] = after
            if before == after:
                continue
            if before is not None:
                changes |= dict.fromkeys(self._indexing.rows_of(key, before), None)
            if after is not None:
                changes |= self._indexing.rows_of(key, after)
        index_rows = StoreRows(self._index, [*changes], [*changes.values()])
        return [StoreRows(self._rows, keys, values), index_rows]


def values_in(present: Present, families: ColumnFamilies) -> ValueBefore:
    """Reads the present values, also of rows in an older format."""
    places: list[tuple[str, Format]] = [(families.name, families.format)]
    places += [(one.family, one.format) for one in families.sources(present.families())]

    def before(key: bytes) -> bytes | None:
        for family, written in places:
            if (row := present.get(family, key)) is not None:
                return decode_value(written, row)
        return None

    return before
