"""Places the puts of a commit as rows of a Versioned partition.

The latest versions are in the partition's own family, by key, with the time from which they are
valid. Replaced versions and marks are in the segments of their ends. A put needs its neighbours
among the present rows, so a slice is placed after the earlier slices are written.
"""

import struct
from collections import defaultdict
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from qss_client.chunks.row_keys import Numbers
from qss_core.formats.segments import Segments, encode_time
from qss_core.formats.timed_keys import (
    VERSION_SUFFIX_BYTES,
    decode_version_key,
    encode_version_key,
)
from qss_core.formats.values import TIMESTAMP_BYTES
from qss_store.storage.engine import FamilyView
from qss_store.storage.family_names import ColumnFamilies
from qss_store.storage.placement.placed_rows import Placed, Present, StoreRows
from qss_store.storage.placement.version_history import Change, Put, Replaced, change_of
from qss_store.transactions.commit_plan import CommitPlan

_time_of = struct.Struct(">q").unpack_from  # Reads the time of a latest version.
_AFTER_ALL_TIMES = b"\xff" * 8


class InVersions:
    """Places the puts of one commit; drops puts before stream time - retention.

    The stream time is that before the batch: rows of a batch have no order in time, so no row makes
    another one late. If the batch moves stream time far, rows for segments that expire are written
    to the first segment that stays, so that later puts find them.
    """

    def __init__(
        self, families: ColumnFamilies, segments: Segments, plan: CommitPlan, present: Present
    ) -> None:
        """Puts find their neighbours in `present`."""
        self._families = families
        self._segments = segments
        self._present = present
        self._default_timestamp_ms = plan.default_timestamp_ms
        self._earliest = plan.stream_time_before - segments.retention_ms
        self._last_before = segments.segment_of(plan.stream_time_before)
        self._first_after = segments.first_live(plan.stream_time)
        self._stream_time = plan.stream_time
        self._names: dict[int, str] = {}

    def place(self, rows: pa.RecordBatch) -> Placed:
        """The puts that are not late, with their times."""
        times = self._times_of(rows)
        counts = times >= self._earliest
        given = rows.num_rows
        if not counts.all():
            rows, times = rows.filter(pa.array(counts)), times[counts]
        return Placed(rows, times, given - rows.num_rows)

    def _times_of(self, rows: pa.RecordBatch) -> Numbers:
        if "timestamp" not in rows.schema.names:
            return np.full(rows.num_rows, self._default_timestamp_ms, np.int64)
        filled: Numbers = rows.column("timestamp").fill_null(self._default_timestamp_ms).to_numpy()
        return filled

    def split(
        self, keys: list[bytes], values: list[bytes | None], places: Numbers | None
    ) -> list[StoreRows]:
        """The rows of the puts, by family; call it after the earlier slices are written."""
        assert places is not None, "a put has a time"
        puts: defaultdict[bytes, dict[int, bytes | None]] = defaultdict(dict)
        for key, value, time in zip(keys, values, places.tolist(), strict=True):
            puts[key][time] = value
        rows = _PlacedVersions(self._families.name)
        present = _Versions(self._present, self._families, self._stream_time)
        try:
            for (key, of_key), latest in zip(puts.items(), present.latest([*puts]), strict=True):
                history = present.history(key, min(of_key))
                self._add(rows, key, change_of(of_key, latest, history))
        finally:
            present.close()
        return rows.parts()

    def _add(self, rows: "_PlacedVersions", key: bytes, change: Change) -> None:
        for valid_from, valid_to, value in change.history:
            row_key = encode_version_key(key, valid_from, valid_to)
            rows.add(self._name_of(self._home_of(valid_to)), row_key, value)
        if change.latest is not None:
            valid_from, value = change.latest
            row = None if value is None else encode_time(valid_from) + value
            rows.add(self._families.name, key, row)

    def _name_of(self, segment: int) -> str:
        if segment not in self._names:
            self._names[segment] = self._families.of_segment(segment)
        return self._names[segment]

    def _home_of(self, valid_to: int) -> int:
        """The segment of a row. Rows in order of their ends are in order of their segments."""
        segment = self._segments.segment_of(valid_to)
        return segment if segment <= self._last_before else max(segment, self._first_after)


class _PlacedVersions:
    """Rows by family, in the order of their addition."""

    def __init__(self, first: str) -> None:
        self._parts: dict[str, StoreRows] = {first: StoreRows(first, [], [])}

    def add(self, family: str, key: bytes, value: bytes | None) -> None:
        part = self._parts.get(family)
        if part is None:
            part = self._parts[family] = StoreRows(family, [], [])
        part.keys.append(key)
        part.values.append(value)

    def parts(self) -> list[StoreRows]:
        return [part for part in self._parts.values() if part.keys]


class _Versions:
    """The versions of a partition at one moment, in all families that a commit may read."""

    def __init__(self, present: Present, families: ColumnFamilies, stream_time: int) -> None:
        self._latest = present.view(families.name)
        self._history: list[FamilyView] = [
            present.view(name) for _, name in sorted(families.segments_in(present.families()))
        ]
        self._end = encode_time(stream_time) + _AFTER_ALL_TIMES

    def latest(self, keys: list[bytes]) -> list[Put | None]:
        rows = self._latest.get_many(keys)
        return [
            None if row is None else Put(_time_of(row)[0], row[TIMESTAMP_BYTES:]) for row in rows
        ]

    def history(self, key: bytes, first: int) -> Iterator[Replaced]:
        """The rows of a key that end at a time or later, in order."""
        lower, upper = encode_version_key(key, 0, first), key + self._end
        for segment in self._history:
            for row_key, value in segment.scan(lower=lower, upper=upper):
                if len(row_key) == len(key) + VERSION_SUFFIX_BYTES:
                    _, valid_from, valid_to = decode_version_key(row_key)
                    yield Replaced(valid_from, valid_to, value)

    def close(self) -> None:
        for view in (self._latest, *self._history):
            view.close()
