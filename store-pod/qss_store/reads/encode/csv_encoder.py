"""Encodes rows as CSV, with the columns and the rules of `qss ... -o csv`."""

from collections.abc import Sequence

import msgspec

from qss_core.wire.csv_rows import csv_cell, csv_line
from qss_store.reads.codec import Codec
from qss_store.reads.encode.json import JsonRows, ScanEncoder, members_of
from qss_store.reads.plans.dispatch import RowsPlan
from qss_store.reads.plans.indexes import IndexPlan

_NULL = msgspec.Raw(b"null")


class CsvRows(ScanEncoder):
    """Encodes one row a line; `header` is the first line, with the names of the columns."""

    def __init__(self, codec: Codec, plan: RowsPlan) -> None:
        names = list(members_of(codec, plan.shape))
        if isinstance(plan, IndexPlan):
            names.insert(1, "indexKey")
        self.header = f"{csv_line(names)}\n".encode()
        self._json = JsonRows(codec, plan)
        # A pod of another version may leave members out, or send more of them.
        row = msgspec.defstruct("Row", [(name, msgspec.Raw, _NULL) for name in names])
        self._decode = msgspec.json.Decoder(list[row]).decode  # type: ignore[valid-type]

    def of_rows(self, row_keys: Sequence[bytes], rows: Sequence[bytes]) -> bytes:
        return self._lines(self._json.of_rows(row_keys, rows))

    def of_lines(self, lines: Sequence[bytes]) -> bytes:
        return self._lines(self._json.of_lines(lines))

    def _lines(self, objects: bytes) -> bytes:
        """The lines of JSON objects with commas between them."""
        rows = map(msgspec.structs.astuple, self._decode(b"[%b]" % objects))
        lines = [csv_line([csv_cell(bytes(value)) for value in row]) for row in rows]
        return "".join(f"{line}\n" for line in lines).encode()
