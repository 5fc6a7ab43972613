"""Where the rows of a batch go: under which row key, into which family, or nowhere.

Rows of a segment that is expired at the stream time after the batch are dropped. Those of a live
segment are kept also where retention hides them, as Kafka keeps them.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np
import pyarrow as pa

from qss_client.layouts import TIME_COLUMNS
from qss_client.row_keys import Numbers, sequences_after, session_row_keys, window_row_keys
from qss_core.model import StoreDefinition, StoreType
from qss_core.segments import Segments
from qss_store.families import Families
from qss_store.transactions.participant import CommitPlan


@dataclass(frozen=True, slots=True)
class StoreRows:
    """Rows as a family keeps them; None deletes, later rows win over earlier ones."""

    family: str
    keys: list[bytes]
    values: list[bytes | None]


@dataclass(frozen=True, slots=True)
class Placed:
    """Rows to write, segment by segment.

    Their column `key` is the row key, `homes` the segment of each, where there are segments.
    """

    rows: pa.RecordBatch
    homes: Numbers | None = None
    expired: int = 0  # Rows that were dropped.


class Placing(Protocol):
    """The rule of one commit in one partition; it sees the commit's rows in order."""

    def place(self, rows: pa.RecordBatch) -> Placed:
        """Which rows are written, and where."""

    def split(
        self, keys: list[bytes], values: list[bytes | None], homes: Numbers | None
    ) -> list[StoreRows]:
        """Placed rows by family."""


def placing_of(definition: StoreDefinition, families: Families, plan: CommitPlan) -> Placing:
    """How the rows of a commit are placed."""
    if families.segments is None:
        return _InOneFamily(families.name)
    return _InSegments(definition, families, families.segments, plan)


@dataclass(frozen=True, slots=True)
class _InOneFamily:
    family: str

    def place(self, rows: pa.RecordBatch) -> Placed:
        return Placed(rows)

    def split(
        self, keys: list[bytes], values: list[bytes | None], _homes: Numbers | None
    ) -> list[StoreRows]:
        return [StoreRows(self.family, keys, values)]


class _InSegments:
    def __init__(
        self,
        definition: StoreDefinition,
        families: Families,
        segments: Segments,
        plan: CommitPlan,
    ) -> None:
        self._type = definition.type
        self._retains_duplicates = definition.retain_duplicates
        self._families = families
        self._interval_ms = segments.interval_ms
        self._first_live = segments.first_live(plan.stream_time)
        self._last_sequence = plan.puts_before

    def place(self, rows: pa.RecordBatch) -> Placed:
        sequences = None
        if self._retains_duplicates:
            rows = rows.filter(rows.column("value").is_valid())  # Nothing a delete could mean.
            sequences = sequences_after(self._last_sequence, rows.num_rows)
            self._last_sequence = int(sequences[-1]) if len(sequences) else self._last_sequence
        times = rows.column(TIME_COLUMNS[self._type][-1]).to_numpy()
        homes = times // self._interval_ms
        rows = rows.set_column(0, "key", self._row_keys(rows, sequences))
        given = rows.num_rows
        is_live = homes >= self._first_live
        if not is_live.all():
            rows, homes = rows.filter(pa.array(is_live)), homes[is_live]
        expired = given - rows.num_rows
        if len(homes) and (homes != homes[0]).any():
            # Segment by segment; equal row keys are in one segment, where their order stays.
            order = np.argsort(homes, kind="stable")
            rows, homes = rows.take(pa.array(order)), homes[order]
        return Placed(rows, homes, expired)

    def _row_keys(self, rows: pa.RecordBatch, sequences: Numbers | None) -> pa.BinaryArray:
        if self._type is StoreType.WINDOW:
            return window_row_keys(rows, sequences)
        return session_row_keys(rows)

    def split(
        self, keys: list[bytes], values: list[bytes | None], homes: Numbers | None
    ) -> list[StoreRows]:
        assert homes is not None, "rows with times are placed in segments"
        cuts = [0, *(np.flatnonzero(np.diff(homes)) + 1).tolist(), len(keys)]
        return [
            StoreRows(self._families.of_segment(int(homes[a])), keys[a:b], values[a:b])
            for a, b in pairwise(cuts)
        ]
