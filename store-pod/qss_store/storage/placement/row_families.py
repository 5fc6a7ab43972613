"""Chooses the row key and the family of each row of a batch, or drops the row.

Rows of a segment that is expired at the stream time after the batch are dropped. Rows of a live
segment are kept even if retention hides them, as in Kafka.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from qss_client.chunks.chunk_schema import TIME_COLUMNS
from qss_client.chunks.row_keys import Numbers, sequences_after, session_row_keys, window_row_keys
from qss_core.formats.segments import Segments
from qss_core.model import StoreDefinition, StoreType
from qss_store.storage.family_names import ColumnFamilies
from qss_store.storage.placement.indexes import WithIndexRows, values_in
from qss_store.storage.placement.placed_rows import Placed, Present, RowPlacer, StoreRows
from qss_store.storage.placement.versions import InVersions
from qss_store.transactions.commit_plan import CommitPlan


def row_placer_of(
    definition: StoreDefinition, families: ColumnFamilies, plan: CommitPlan, present: Present
) -> RowPlacer:
    """The placer of a commit's rows; versions and indexes read the rows that are `present`."""
    if families.index is not None:
        return WithIndexRows(families, values_in(present, families))
    if families.segments is None:
        return _InOneFamily(families.name)
    if definition.type is StoreType.VERSIONED:
        return InVersions(families, families.segments, plan, present)
    return _InSegments(definition, families, families.segments, plan)


@dataclass(frozen=True, slots=True)
class _InOneFamily:
    family: str

    def place(self, rows: pa.RecordBatch) -> Placed:
        return Placed(rows)

    def split(
        self, keys: list[bytes], values: list[bytes | None], _places: Numbers | None
    ) -> list[StoreRows]:
        return [StoreRows(self.family, keys, values)]


class _InSegments:
    def __init__(
        self,
        definition: StoreDefinition,
        families: ColumnFamilies,
        segments: Segments,
        plan: CommitPlan,
    ) -> None:
        self._type = definition.type
        self._retains_duplicates = definition.retain_duplicates
        self._families = families
        self._interval_ms = segments.interval_ms
        self._first_live = segments.first_live(plan.stream_time)
        self._earliest_visible = segments.earliest_visible(plan.stream_time)
        self._last_sequence = plan.puts_before

    def place(self, rows: pa.RecordBatch) -> Placed:
        sequences = None
        if self._retains_duplicates:
            rows = rows.filter(rows.column("value").is_valid())  # Deletes have no meaning.
            sequences = sequences_after(self._last_sequence, rows.num_rows)
            self._last_sequence = int(sequences[-1]) if len(sequences) else self._last_sequence
        times = rows.column(TIME_COLUMNS[self._type][-1]).to_numpy()
        places = times // self._interval_ms
        rows = rows.set_column(0, "key", self._row_keys(rows, sequences))
        given = rows.num_rows
        is_live = places >= self._first_live
        if not is_live.all():
            rows, places = rows.filter(pa.array(is_live)), places[is_live]
        expired = given - rows.num_rows
        hidden = int(np.count_nonzero(times < self._earliest_visible)) - expired
        if len(places) and (places != places[0]).any():
            # Sort by segment; equal row keys are in one segment, and keep their order.
            order = np.argsort(places, kind="stable")
            rows, places = rows.take(pa.array(order)), places[order]
        return Placed(rows, places, expired, hidden)

    def _row_keys(self, rows: pa.RecordBatch, sequences: Numbers | None) -> pa.BinaryArray:
        if self._type is StoreType.WINDOW:
            return window_row_keys(rows, sequences)
        return session_row_keys(rows)

    def split(
        self, keys: list[bytes], values: list[bytes | None], places: Numbers | None
    ) -> list[StoreRows]:
        assert places is not None, "rows with times are placed in segments"
        cuts = [0, *(np.flatnonzero(np.diff(places)) + 1).tolist(), len(keys)]
        return [
            StoreRows(self._families.of_segment(int(places[a])), keys[a:b], values[a:b])
            for a, b in pairwise(cuts)
        ]
