"""Scans one replica's rows with times, and filters the rows that the query wants."""

from collections.abc import Iterator
from dataclasses import replace
from typing import cast

from qss_core.errors import MalformedBytesError, StoreError, unreadable
from qss_core.formats.timed_keys import STILL_VALID
from qss_core.model import Sequence, StoreType
from qss_store.reads.encode.json import StoredRowEncoder
from qss_store.reads.plans.times import TimedPlan
from qss_store.reads.routing.admission import Reading
from qss_store.reads.scans.cursors import Piece, bounds_after
from qss_store.reads.scans.read_ahead import ReadAhead
from qss_store.reads.scans.replica_reads import CHUNK_BYTES_MAX, SCAN_ROWS_MAX, Chunk
from qss_store.reads.scans.time_bounds import make_filter, row_bounds
from qss_store.reads.scans.version_lookup import is_kept, open_versions, versions_in
from qss_store.runtime.metrics import Metrics
from qss_store.storage.views.segmented import SegmentedView

# The most rows that one `take` looks at, wanted or not: then other reads take their turn.
LOOKED_AT_MAX = 2000


def visible(reading: Reading, plan: TimedPlan) -> TimedPlan:
    """The plan without the times that retention hides, so that its filter drops hidden rows."""
    if plan.type is StoreType.VERSIONED:
        versions = versions_in(reading)
        has_history = is_kept(versions, plan.start_to)
        earliest = versions.history.earliest_visible if has_history else STILL_VALID
    else:
        earliest = _rows(reading).earliest_visible
    return plan if earliest <= plan.earliest else replace(plan, earliest=earliest)


def open_rows(
    reading: Reading, plan: TimedPlan, last_key: bytes | None = None
) -> Iterator[tuple[bytes, bytes]]:
    """The rows in the bounds of a `visible` plan, after `last_key`, before its filter.

    Only whole segments are left out by time here: the caller counts the rows that it filters out,
    so that other reads take their turn.
    """
    view = reading.view
    if plan.type is StoreType.VERSIONED:
        return open_versions(versions_in(reading), plan, last_key)
    bounds = row_bounds(plan, view.stream_time)
    if bounds is None:
        return iter(())
    lower, upper = bounds_after(last_key, *bounds, reverse=plan.reverse)
    if lower is not None and upper is not None and lower >= upper:
        return iter(())
    return _rows(reading).scan(
        lower=lower,
        upper=upper,
        reverse=plan.reverse,
        earliest=plan.earliest,
        latest=plan.latest,
        exact=False,
    )


def _rows(reading: Reading) -> SegmentedView:
    return cast(SegmentedView, reading.view.rows)


class TimedScan:
    """A scan of the rows of one state by row key; it holds the state open until `close`."""

    def __init__(
        self,
        reading: Reading,
        plan: TimedPlan,
        start: Piece,
        encoder: StoredRowEncoder,
        metrics: Metrics,
    ) -> None:
        """Opens the iterator after `start`; call it without an await after the reading."""
        self._encoder = encoder
        plan = visible(reading, plan)
        self._matches = make_filter(plan)
        self.last_key = start.last_key  # The key of the last row that was returned or filtered out.
        self.sequence: Sequence = reading.view.sequence
        self._given = self._looked_at = 0
        rows = open_rows(reading, plan, start.last_key)
        self._ahead: ReadAhead | None = ReadAhead(rows, CHUNK_BYTES_MAX)
        self._gauge = metrics.open_iterators
        self._gauge.inc()

    @property
    def is_over(self) -> bool:
        """Whether all rows were taken."""
        return self._ahead is None or self._ahead.is_over

    @property
    def told(self) -> str:
        """The numbers of rows that were scanned and returned, as text."""
        return f"{self._looked_at} rows scanned, {self._given} returned"

    def take(self, rows_max: int) -> Chunk:
        """The next rows; none, also before the end, after LOOKED_AT_MAX rows without a match."""
        keys, rows, last_key, looked_at = self._wanted(min(rows_max, SCAN_ROWS_MAX))
        try:
            data = self._encoder.of_rows(keys, rows) if keys else b""
        except MalformedBytesError as error:
            raise unreadable(error) from error
        # Advance only now: the caller did not get the rows of a chunk that failed.
        self.last_key = last_key
        self._given += len(keys)
        self._looked_at += looked_at
        return Chunk(len(keys), data)

    def _wanted(self, most: int) -> tuple[list[bytes], list[bytes], bytes | None, int]:
        """Keys and rows of the next wanted rows, the last key looked at, and the rows looked at.

        It puts the first wanted row beyond `most` back, so that `is_over` is true at the end.
        """
        if self._ahead is None:
            raise StoreError("the scan was closed")
        wanted_keys: list[bytes] = []
        wanted_rows: list[bytes] = []
        last_key, looked_at, size = self.last_key, 0, 0
        while looked_at < LOOKED_AT_MAX:
            keys, rows = self._ahead.take(min(LOOKED_AT_MAX - looked_at, most + 1))
            room = most - len(wanted_keys) if size < CHUNK_BYTES_MAX else 0
            matching = [place for place, key in enumerate(keys) if self._matches(key)]
            is_full = len(matching) > room
            if is_full:
                behind = matching[room]
                self._ahead.put_back(keys[behind:], rows[behind:])
                del keys[behind:], rows[behind:], matching[room:]
            last_key = keys[-1] if keys else last_key
            looked_at += len(keys)
            if len(matching) < len(keys):
                keys = [keys[place] for place in matching]
                rows = [rows[place] for place in matching]
            wanted_keys += keys
            wanted_rows += rows
            if is_full or self._ahead.is_over:
                break
            size += sum(map(len, rows))
        return wanted_keys, wanted_rows, last_key, looked_at

    def close(self) -> None:
        """Releases the state; a second call is no error."""
        if self._ahead is not None:
            self._ahead = None
            self._gauge.dec()
