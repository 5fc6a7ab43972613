"""How the rows of a commit become rows of a KeyValue partition and rows of its indexes.

The index rows of a row are a function of the row alone: those that the row before had and this one
has not are deleted, those that it has are put, in the batch that writes the row. So after each
write the index is that of the rows, and a commit that is applied again, from any of its writes on,
finds nothing else to do.
"""

from collections.abc import Callable

import pyarrow as pa

from qss_client.chunks.row_keys import Numbers
from qss_core.formats.values import Format, decode_value
from qss_store.storage.column_families import ColumnFamilies
from qss_store.storage.index_keys import Indexing
from qss_store.storage.placement.placed import Placed, Present, StoreRows

ValueBefore = Callable[[bytes], bytes | None]  # A key's value before the rows that are placed.


class WithIndexRows:
    """The rule of one commit."""

    def __init__(self, families: ColumnFamilies, before: ValueBefore) -> None:
        """`families` has an index; `before` sees the slices that were written."""
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
        """The rows and the index rows. Raises StoreTypeFailedError, and nothing is written."""
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
    """The values that are there now, also where their row still has an older format."""
    places: list[tuple[str, Format]] = [(families.name, families.format)]
    places += [(one.family, one.format) for one in families.sources(present.families())]

    def before(key: bytes) -> bytes | None:
        for family, written in places:
            if (row := present.get(family, key)) is not None:
                return decode_value(written, row)
        return None

    return before
