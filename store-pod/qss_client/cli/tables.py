"""Formats rows as tables, whose cells are cut with an ellipsis on a terminal."""

import shutil
import sys
from collections.abc import Collection, Sequence

from rich.cells import cell_len

from qss_core.text import escaped

_BETWEEN = "  "
_ALIGNED_MAX = 200  # A longer cell, which is not cut, stands out of its column.
_WIDTH_MIN = 6  # The width of a column whose cells are cut.
_UNITS = (("T", 10**12), ("G", 10**9), ("M", 10**6), ("k", 10**3))
_ELLIPSIS = "…"


def table_lines(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    width: int | None = None,
    whole: Collection[str] = (),
) -> list[str]:
    """The lines of a table, the headings first.

    width: the terminal's; cells are cut to fit it. None: cells are not cut. `whole` has the
    headings of columns that are never cut, like names and times, which a person copies.
    """
    everything = [headings, *([escaped(cell) for cell in row] for row in rows)]
    widths = [max(cell_len(row[column]) for row in everything) for column in range(len(headings))]
    if width is not None:
        placed, widths = _padded, _fitted(headings, widths, width, whole)
    else:
        placed, widths = _aligned, [min(size, _ALIGNED_MAX) for size in widths]
    return [
        _BETWEEN.join(placed(cell, size) for cell, size in zip(row, widths, strict=True)).rstrip()
        for row in everything
    ]


def shown_bytes(count: int) -> str:
    """A number of bytes with three digits, as 1.23G."""
    for unit, size in _UNITS:
        if count >= size:
            return f"{count / size:.3g}{unit}"
    return str(count)


def terminal_width() -> int | None:
    """The width of the terminal; None if the output is not a terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _fitted(
    headings: Sequence[str], widths: Sequence[int], width: int, whole: Collection[str]
) -> list[int]:
    """The column widths after cutting, all with the same, largest possible bound."""
    kept = [heading in whole for heading in headings]
    gaps = len(_BETWEEN) * (len(widths) - 1)

    def bounded(most: int) -> list[int]:
        return [size if keep else min(size, most) for size, keep in zip(widths, kept, strict=True)]

    bound = max(widths)
    while bound > _WIDTH_MIN and sum(bounded(bound)) + gaps > width:
        bound -= 1
    return bounded(bound)


def _aligned(cell: str, size: int) -> str:
    return cell + " " * (size - cell_len(cell))


def _padded(cell: str, size: int) -> str:
    length = cell_len(cell)
    if length <= size:
        return cell + " " * (size - length)
    kept, used = "", 0
    for letter in cell:
        used += cell_len(letter)
        if used > size - 1:
            break
        kept += letter
    return kept + _ELLIPSIS + " " * (size - 1 - cell_len(kept))
