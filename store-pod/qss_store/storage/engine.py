"""The port to one replica's database: families of ordered bytes, atomic batches, snapshots.

Keys are ordered bytewise. All families share one write-ahead log, so a batch over several families
is atomic. A write is durable once a `sync` that began after it has returned; what a process wrote
survives the process, not the machine, before that.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from qss_core.errors import NotReadyError
from qss_core.model import Wire

META = "meta"
CHANGELOG = "changelog"
PAYLOAD = "payload"  # The rows of staged chunks, under their entries' offsets.
FIXED_FAMILIES = (META, CHANGELOG, PAYLOAD)


class PassingError(NotReadyError):
    """The database failed for want of what comes back, and takes writes when it is opened again."""


def shortage_of(error: Exception) -> PassingError | None:
    """What stands for a want of threads or of memory, which ends by itself; None for the rest."""
    if isinstance(error, MemoryError) or "can't start new thread" in str(error):
        return PassingError(f"the process has no thread or memory left: {error}")
    return None


Get = Callable[[bytes], bytes | None]  # The value of a key, or None.


class Batch(Protocol):
    """Writes that become visible together, in the order given."""

    def put(self, family: str, key: bytes, value: bytes) -> None: ...

    def put_rows(self, family: str, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """Sets many rows, the fast way; a None value deletes."""

    def delete(self, family: str, key: bytes) -> None:
        """Removes one row; an absent one is no error."""


class FamilyView(Protocol):
    """One family as it was at one moment; it stays so until `close`."""

    def get(self, key: bytes) -> bytes | None:
        """The value, or None; CorruptionError for a damaged block."""

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """The values of many keys, in their order; CorruptionError where any block is damaged."""

    def reader(self) -> Get:
        """Gets of this moment, which go on after `close`, as a scan does."""

    def pin(self) -> object:
        """To be called before the family is written again: scans to come need it."""

    def scan(
        self, *, lower: bytes | None = None, upper: bytes | None = None, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Rows with lower <= key < upper in key order; CorruptionError, never a short answer.

        Scans of one snapshot may be read in turns, by one thread.
        """

    def close(self) -> None:
        """Lets go of the moment; a scan that still runs keeps its own hold."""


class SyncedFiles(Wire, frozen=True, kw_only=True):
    """What the files of a database held when they were synced, seen from outside of it.

    A write-ahead log that was cut short, or is gone, opens without an error: only this tells.
    """

    log_number: int  # Of the newest write-ahead log.
    log_bytes: int  # Its length.
    writes: int  # Rows ever written: the database's own count.


class Engine(Protocol):
    def batch(self) -> Batch: ...

    def write(self, batch: Batch, *, makes_room: bool = False) -> None:
        """Applies a batch at once; DiskFullError, and nothing applied, where no space is left.

        One that `makes_room` deletes rows: it may use space that is kept back from others.
        """

    def sync(self) -> None:
        """Makes all earlier writes durable. Blocks: call it outside the event loop."""

    def mark(self) -> "SyncedFiles | None":
        """Syncs, and tells what the files hold at least from now on. Blocks, as `sync` does.

        None for an engine without files.
        """

    def get(self, family: str, key: bytes) -> bytes | None:
        """The newest value, or None."""

    def scan(
        self, family: str, *, lower: bytes | None = None, upper: bytes | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        """Rows of a family with lower <= key < upper, as of the call."""

    def snapshot(self, family: str) -> FamilyView:
        """The family as of now."""

    def families(self) -> frozenset[str]:
        """The names of all families."""

    def create_family(self, family: str) -> None:
        """Adds an empty family; one that is there already stays as it is. Takes milliseconds."""

    def drop_family(self, family: str) -> None:
        """Removes a family and its rows; an absent one is no error. Blocks, as `sync` does."""

    def compact_family(self, family: str, below: bytes) -> None:
        """Makes a family forget the deleted rows below a key, so that no scan walks over them.

        Blocks for long; an absent family is no error. Nobody may drop it meanwhile.
        """

    def approximate_count(self, family: str) -> int:
        """About how many rows a family has."""

    def size_bytes(self) -> int:
        """About how many bytes it takes on disk."""

    def close(self) -> None:
        """Closes the database; snapshots must have been closed before."""
