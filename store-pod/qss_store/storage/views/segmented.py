"""The rows of a Window or Session partition at one moment, over its segments.

A row lies in the segment of its time, and its time is part of its key: no key is in two segments,
and a point read looks into one. Readers do not see rows that retention hides, even while these rows
are still on disk.
"""

from collections.abc import Iterator, Mapping, Sequence
from heapq import merge
from operator import itemgetter

from qss_core.formats.segments import Segments, encode_time
from qss_core.formats.timed_keys import TIME_MAX
from qss_core.formats.values import RowConverter
from qss_store.storage.engine import FamilyView, Get
from qss_store.storage.stretches import Row
from qss_store.storage.views.converted import ConvertedRows
from qss_store.storage.views.overlaid import NO_ROWS, OverlaidView, SortedRows

_ROW_KEY = itemgetter(0)


class SegmentedView:
    """All live segments as they were at one moment: a FamilyView by row key.

    A segment that is dropped later stays readable until `close`, and until its scans end. A segment
    that is created later is not part of the view.
    """

    def __init__(
        self, segments: Segments, views: Mapping[int, FamilyView], stream_time: int
    ) -> None:
        """Owns `views`, by segment id; `stream_time` is that of the moment."""
        self._segments = segments
        self._stream_time = stream_time
        self._views = {number: views[number] for number in sorted(views)}
        self._interval_ms = segments.interval_ms
        self._earliest = segments.earliest_visible(stream_time)

    @property
    def earliest_visible(self) -> int:
        """The earliest time that readers see, in milliseconds."""
        return self._earliest

    def get(self, key: bytes) -> bytes | None:
        """The value of a row key, or None; also None if retention hides it."""
        view = self._home_of(key)
        return None if view is None else view.get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        by_segment: dict[int, tuple[FamilyView, list[int]]] = {}
        for index, key in enumerate(keys):
            if (home := self._home_of(key)) is not None:
                by_segment.setdefault(id(home), (home, []))[1].append(index)
        values: list[bytes | None] = [None] * len(keys)
        for home, indices in by_segment.values():
            found = home.get_many([keys[index] for index in indices])
            for index, value in zip(indices, found, strict=True):
                values[index] = value
        return values

    def _home_of(self, key: bytes) -> FamilyView | None:
        time = self._segments.time_of(key)
        return None if time < self._earliest else self._views.get(time // self._interval_ms)

    def converted(self, convert: RowConverter) -> "SegmentedView":
        """The same rows in another format; it owns nothing."""
        views = {number: ConvertedRows(rows, convert) for number, rows in self._views.items()}
        return SegmentedView(self._segments, views, self._stream_time)

    def overlaid(self, above: Mapping[int, SortedRows], stream_time: int) -> "SegmentedView":
        """A view at a later stream time, with the newer rows of `above` in place of older ones.

        `above` has rows by the number of their segment. The view owns none of its views."""
        first = self._segments.first_live(stream_time)
        views = {
            number: OverlaidView(self._views.get(number), above.get(number, NO_ROWS))
            for number in {*self._views, *above}
            if number >= first
        }
        return SegmentedView(self._segments, views, stream_time)

    def reader(self) -> Get:
        """A function that gets rows of this moment, also after `close`."""
        readers = {id(one): one.reader() for one in self._views.values()}

        def get(key: bytes) -> bytes | None:
            home = self._home_of(key)
            return None if home is None else readers[id(home)](key)

        return get

    @property
    def segments(self) -> Mapping[int, FamilyView]:
        return self._views

    def pin(self) -> None:
        """Fixes the rows of all segments."""
        for view in self._views.values():
            view.pin()

    def scan(
        self,
        *,
        lower: bytes | None = None,
        upper: bytes | None = None,
        reverse: bool = False,
        earliest: int | None = None,
        latest: int | None = None,
        exact: bool = True,
    ) -> Iterator[Row]:
        """Rows with lower <= row key < upper in row-key order, and earliest <= time <= latest.

        Without `exact` it returns all rows of the segments with such times, hidden ones too: the
        caller drops them, and can count the dropped rows between two wanted ones. Segments without
        such times are not opened. As for every view, the scan keeps its own hold on the rows,
        and scans may be read in turns.
        """
        first = self._earliest if earliest is None else max(earliest, self._earliest)
        last = TIME_MAX if latest is None else latest
        scans = [
            self._within(number, rows, first, last) if exact else rows
            for number, view in self._views.items()
            if first <= last and self._overlaps(number, first, last)
            for rows in [view.scan(lower=lower, upper=upper, reverse=reverse)]
        ]
        if len(scans) == 1:
            return scans[0]
        return merge(*scans, key=_ROW_KEY, reverse=reverse)

    def hides(self, key: bytes) -> bool:
        """Whether retention hides the row of a key: a scan that is not exact returns it."""
        return self._segments.time_of(key) < self._earliest

    def _overlaps(self, number: int, first: int, last: int) -> bool:
        start = number * self._interval_ms
        return start <= last and first < start + self._interval_ms

    def _within(self, number: int, rows: Iterator[Row], first: int, last: int) -> Iterator[Row]:
        """The rows of a segment with a wanted time; most segments need no check."""
        start = number * self._interval_ms
        if first <= start and start + self._interval_ms - 1 <= last:
            return rows
        times = self._segments.time_in_key
        low, high = encode_time(first), encode_time(last)
        return (row for row in rows if low <= row[0][times] <= high)

    def close(self) -> None:
        """Releases the state; a running scan keeps its own hold."""
        for view in self._views.values():
            view.close()
