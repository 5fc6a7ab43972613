"""The names by which a store knows the load of a file again.

The writer is named by the path of the file, and the id of its query has three parts: a digest of
the file's bytes, a digest of the columns and of the size of a batch, and a word that is new for
each load that begins anew. A store keeps the id of each writer.
"""

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from qss_core.errors import MalformedRequestError, OtherCheckpointError

_READ_BYTES = 4 * 1024 * 1024
_NAME_LETTERS = 60
_UNFIT = re.compile("[^A-Za-z0-9._-]+")
# A change of the rules by which rows become batches makes another load of the same file.
_SLICING = "rows-1"


@dataclass(frozen=True, slots=True)
class Stamp:
    """The file as the file system has it; a write changes it."""

    inode: int
    size: int
    changed_ns: int

    @classmethod
    def of(cls, path: Path) -> "Stamp":
        found = path.stat()
        return cls(found.st_ino, found.st_size, found.st_mtime_ns)


@dataclass(frozen=True, slots=True)
class Identity:
    """A file, and the options of its load that choose the rows of a batch."""

    writer: str
    file: str
    options: str

    def fresh(self, word: str) -> str:
        """The id of a query that begins with the first row; `word` is another one each time."""
        return f"{self.file}.{self.options}.{word}"

    def check_same(self, held: str, name: str) -> None:
        """Raises OtherCheckpointError if the store's query `held` had another file or options."""
        again = "--again loads it from its first row (the rows of before stay)"
        file, _, rest = held.partition(".")
        if file != self.file:
            raise OtherCheckpointError(
                f"{name} has changed since its rows were loaded into this store: {again}. To go on "
                "where that load ended, load the file as it was then"
            )
        if rest.partition(".")[0] != self.options:
            raise OtherCheckpointError(
                f"{name} was loaded with other columns or another --batch-rows: repeat these, or "
                f"{again}"
            )

    def fingerprint(self, batch: int) -> str:
        """The fingerprint of a batch, the same in each repeat."""
        return hashlib.sha256(f"{self.file}.{self.options}.{batch}".encode()).hexdigest()


def identity_of(path: Path, options: dict[str, object], tell: Callable[[float], None]) -> Identity:
    """Reads the whole file. `tell` gets the share that was read, 0 to 1, after each 4 MiB."""
    digest = hashlib.sha256()
    size = path.stat().st_size or 1
    read = 0
    with path.open("rb") as file:
        while data := file.read(_READ_BYTES):
            digest.update(data)
            read += len(data)
            tell(min(1.0, read / size))
    chosen = json.dumps([_SLICING, options], sort_keys=True)
    return Identity(
        writer=_writer_name(path),
        file=digest.hexdigest()[:40],
        options=hashlib.sha256(chosen.encode()).hexdigest()[:16],
    )


def _writer_name(path: Path) -> str:
    """The name of a writer: that of the file, which a person knows, and a digest of its path."""
    place = hashlib.sha256(str(path.resolve()).encode(errors="surrogateescape")).hexdigest()[:8]
    return f"load-{_UNFIT.sub('_', path.name)[:_NAME_LETTERS]}-{place}"


def check_unchanged(path: Path, stamp: Stamp) -> None:
    """Raises MalformedRequestError if the file was written since its `stamp` was taken."""
    if Stamp.of(path) != stamp:
        raise MalformedRequestError(
            f"{path} was written while it was loaded: its rows so far are in the store; repeat the "
            "command with --again when the file is complete"
        )
