"""The types of placed rows, and the ports that place them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from qss_client.chunks.row_keys import Numbers
from qss_store.storage.engine import FamilyView


@dataclass(frozen=True, slots=True)
class StoreRows:
    """Rows of one family; a None value deletes, later rows win over earlier ones."""

    family: str
    keys: list[bytes]
    values: list[bytes | None]


@dataclass(frozen=True, slots=True)
class Placed:
    """Rows to write.

    `places` has what `split` needs of each row: the segment of the row key in column `key`, or the
    time of a version.
    """

    rows: pa.RecordBatch
    places: Numbers | None = None
    expired: int = 0  # The number of dropped rows.
    hidden: int = 0  # The number of rows to write that retention hides from each reader.


class Present(Protocol):
    """The rows before the commit: a replica's engine, or a state that readers see."""

    def families(self) -> Iterable[str]: ...

    def get(self, family: str, key: bytes) -> bytes | None:
        """The newest value of a key, or None."""

    def view(self, family: str) -> FamilyView:
        """A family's rows at this moment; the caller closes the view."""


class RowPlacer(Protocol):
    """Places the rows of one commit in one partition, in order."""

    def place(self, rows: pa.RecordBatch) -> Placed: ...

    def split(
        self, keys: list[bytes], values: list[bytes | None], places: Numbers | None
    ) -> list[StoreRows]:
        """Placed rows by family; call it after the earlier slices are written."""
