"""The rows of an input file, whichever its format, with the line of each row."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from qss_core.errors import MalformedRequestError

LINE_BYTES_MAX = 16 * 1024 * 1024  # A value has at most 8 MiB.


class FileFormat(StrEnum):
    """The formats of input files."""

    CSV = "csv"
    NDJSON = "ndjson"
    PARQUET = "parquet"


class Text(str):
    """A field of CSV, which has no type: 12 may be a number or a text."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class InputRow:
    """A row, or a line that is no row.

    line: of the file, from 1; in a Parquet file the number of the row. cells: by column; a cell is
    None, a Text (CSV), a msgspec.Raw (NDJSON), or the Python value of a Parquet column. An absent
    column is null. problem: says why the line is no row.
    """

    line: int
    cells: Mapping[str, Any] = field(default_factory=dict)
    problem: str | None = None


class InputFile(Protocol):
    """An open input file; its rows are read once."""

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the file; an NDJSON file has the columns of its first row."""
        ...

    @property
    def line_word(self) -> str:
        """The word for the number of a row: line, or row."""
        ...

    def close(self) -> None:
        """Closes the file, whose rows may be read or not."""
        ...

    def rows(self) -> Iterator[InputRow]:
        """The rows in the order of the file."""
        ...

    def share_read(self) -> float:
        """The part of the file that was read: 0 to 1."""
        ...


_COMPRESSED = frozenset({".bz2", ".gz", ".xz", ".zip", ".zst"})
_SUFFIXES = {
    ".csv": FileFormat.CSV,
    ".ndjson": FileFormat.NDJSON,
    ".jsonl": FileFormat.NDJSON,
    ".parquet": FileFormat.PARQUET,
}


def format_of(path: Path, given: FileFormat | None) -> FileFormat:
    """The format of a file, by its suffix if none is given. Raises MalformedRequestError."""
    if path.suffix.lower() in _COMPRESSED:
        raise MalformedRequestError(f"{path.name} is compressed: unpack it first")
    found = given or _SUFFIXES.get(path.suffix.lower())
    if found is None:
        raise MalformedRequestError(
            f"the format of {path.name} is not known by its suffix ({', '.join(_SUFFIXES)}): "
            "give it with --format csv, ndjson or parquet"
        )
    return found


def rows_text(count: int) -> str:
    """A number of rows in words: "1 row", "2 rows"."""
    return "1 row" if count == 1 else f"{count} rows"
