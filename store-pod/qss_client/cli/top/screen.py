"""The lines of `qss top`. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from qss_client.cli.printing import heading_of
from qss_client.cli.tables import shown_bytes, table_lines
from qss_client.cli.top.rates import Shown

# A table fits into 80 columns.
_HEADINGS = {
    "partition": "PART",
    "lagOffsets": "LAG",
    "lagSeconds": "LAG S",
    "batchesPerSecond": "BATCHES/S",
    "rowsPerSecond": "ROWS/S",
    "readsPerSecond": "READS/S",
    "readMs": "READ MS",
    "readP99Ms": "P99 MS <=",
    "freeBytes": "FREE BYTES",
}


def screen_lines(
    stores: Sequence[Shown], *, width: int | None = None, height: int | None = None
) -> list[str]:
    """The stores, then the pods and the partitions of each; None: nothing is cut."""
    lines = _table([one.store for one in stores], width)
    for one in stores:
        lines += ["", *_table(one.pods, width), "", *_table(one.partitions, width)]
    if height is not None and len(lines) > height:
        lines = [*lines[: height - 1], f"... {len(lines) - height + 1} more lines"]
    return lines


def _table(documents: Sequence[Mapping[str, Any]], width: int | None) -> list[str]:
    names = list(documents[0]) if documents else []
    rows = [[_cell(name, one[name]) for name in names] for one in documents]
    headings = [_HEADINGS.get(name, heading_of(name)) for name in names]
    return table_lines(headings, rows, width=width)


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if name == "freeBytes":
        return shown_bytes(value)
    return f"{value:.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
