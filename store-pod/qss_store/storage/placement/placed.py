"""What it means to place rows: under which row key, into which family, or nowhere."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from qss_client.chunks.row_keys import Numbers
from qss_store.storage.engine import FamilyView


@dataclass(frozen=True, slots=True)
class StoreRows:
    """Rows as a family keeps them; None deletes, later rows win over earlier ones."""

    family: str
    keys: list[bytes]
    values: list[bytes | None]


@dataclass(frozen=True, slots=True)
class Placed:
    """Rows to write.

    `places` is what `split` wants to know of each: the segment that its column `key`, the row key
    by then, belongs to, or the time of a version.
    """

    rows: pa.RecordBatch
    places: Numbers | None = None
    expired: int = 0  # Rows that were dropped.


class Present(Protocol):
    """The rows that a put finds: a replica's engine, or a state that readers see."""

    def families(self) -> Iterable[str]: ...

    def get(self, family: str, key: bytes) -> bytes | None:
        """The newest value of a key, or None."""

    def snapshot(self, family: str) -> FamilyView:
        """A family's rows as of now; whoever asks closes it."""


class Placing(Protocol):
    """The rule of one commit in one partition; it sees the commit's rows in order."""

    def place(self, rows: pa.RecordBatch) -> Placed: ...

    def split(
        self, keys: list[bytes], values: list[bytes | None], places: Numbers | None
    ) -> list[StoreRows]:
        """Placed rows by family; those before them are written."""
