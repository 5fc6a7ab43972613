"""The port to one replica's database: column families of ordered bytes, atomic batches, views.

Keys are ordered bytewise. All families share one write-ahead log, so a batch over several families
is atomic. A write is durable after a `sync` that began after it. Before that the write survives a
crash of the process, but not a crash of the machine.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from qss_core.errors import NotReadyError
from qss_core.model import Wire

META = "meta"
CHANGELOG = "changelog"
PAYLOAD = "payload"  # The rows of staged chunks, under their entries' offsets.
FIXED_FAMILIES = (META, CHANGELOG, PAYLOAD)


class PassingError(NotReadyError):
    """The database lacked memory, files or space; it takes writes after it is opened again."""


def shortage_of(error: Exception) -> PassingError | None:
    """A PassingError for an error of missing threads or memory; None for any other error."""
    if isinstance(error, MemoryError) or "can't start new thread" in str(error):
        return PassingError(f"the process has no thread or memory left: {error}")
    return None


Get = Callable[[bytes], bytes | None]  # The value of a key, or None.


class Batch(Protocol):
    """Writes that become visible together, in their order."""

    def put(self, family: str, key: bytes, value: bytes) -> None: ...

    def put_rows(self, family: str, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """Sets many rows in one fast call; a None value deletes."""

    def delete(self, family: str, key: bytes) -> None:
        """Deletes one row; an absent row is no error."""


class FamilyView(Protocol):
    """The state of one family at one moment, until `close`."""

    def get(self, key: bytes) -> bytes | None:
        """The value, or None; CorruptionError for a damaged block."""

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of many keys, in their order; CorruptionError where any block is damaged."""

    def reader(self) -> Get:
        """A function that gets rows of this moment, also after `close`."""

    def pin(self) -> object:
        """Fixes the view for later scans. Call it before the next write to the family."""

    def scan(
        self, *, lower: bytes | None = None, upper: bytes | None = None, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Rows with lower <= key < upper in key order; CorruptionError, never a short answer.

        One thread may read several scans of one view in turns.
        """

    def close(self) -> None:
        """Releases the state; a running scan keeps its own hold on it."""


class SyncedFiles(Wire, frozen=True, kw_only=True):
    """The state of a database's files after a sync, for a comparison when they are opened again.

    RocksDB opens a shortened or missing write-ahead log without an error.
    """

    log_number: int  # The number of the newest write-ahead log.
    log_bytes: int  # The length of that log.
    writes: int  # The database's own count of all rows ever written.


class Engine(Protocol):
    def batch(self) -> Batch: ...

    def write(self, batch: Batch, *, makes_room: bool = False) -> None:
        """Applies a batch at once. Raises DiskFullError; then the batch is not applied.

        A batch that `makes_room` deletes rows: it may use space that other writes may not use.
        """

    def sync(self) -> None:
        """Makes all earlier writes durable. Blocks: call it outside the event loop."""

    def mark(self) -> "SyncedFiles | None":
        """Syncs, and returns the state that the files have at least from now on. Blocks as `sync`.

        None for an engine without files.
        """

    def get(self, family: str, key: bytes) -> bytes | None:
        """The newest value, or None."""

    def scan(
        self, family: str, *, lower: bytes | None = None, upper: bytes | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        """Rows of a family with lower <= key < upper, at the moment of the call."""

    def check_rows(self, family: str, after: bytes | None) -> tuple[bytes | None, int]:
        """Reads some rows behind a key (None: the first ones) from the files, past the cache.

        Returns the last key, None at the end, and the bytes read. CorruptionError for damage.
        """

    def view(self, family: str) -> FamilyView:
        """A view of the family at this moment."""

    def families(self) -> frozenset[str]:
        """The names of all families."""

    def create_family(self, family: str) -> None:
        """Creates an empty family; an existing family stays as it is. Takes milliseconds."""

    def drop_family(self, family: str) -> None:
        """Drops a family and its rows; an absent family is no error. Blocks as `sync` does."""

    def compact_family(self, family: str, below: bytes) -> None:
        """Clears the deleted rows of a family below a key, so that no scan walks over them.

        Blocks for long; an absent family is no error. Do not drop the family meanwhile.
        """

    def approximate_count(self, family: str) -> int:
        """The approximate number of rows of a family."""

    def flush(self) -> None:
        """Writes all rows in memory to files, so that a checkpoint is quick. Blocks for long."""

    def checkpoint(self, path: Path) -> None:
        """Makes `path` a database with all writes so far. Blocks; its files may be links.

        Raises DiskFullError.
        """

    def size_bytes(self) -> int:
        """The approximate size of the database on disk, in bytes."""

    def close(self) -> None:
        """Closes the database; close all views before."""
