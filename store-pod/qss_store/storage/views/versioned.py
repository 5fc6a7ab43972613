"""The versions of a Versioned partition at one moment.

As a FamilyView it has the latest version of each key: the row is the time from which the value is
valid (8 bytes), then the value. `history` has the replaced versions and the marks of tombstones;
retention hides them like the rows of any segment.
"""

from collections.abc import Iterator, Mapping, Sequence

from qss_core.formats.segments import encode_time
from qss_core.formats.timed_keys import VERSION_SUFFIX_BYTES, encode_version_key
from qss_store.storage.engine import FamilyView, Get
from qss_store.storage.stretches import Row
from qss_store.storage.views.overlaid import OverlaidView, SortedRows
from qss_store.storage.views.segmented import SegmentedView

_AFTER_ALL_TIMES = b"\xff" * 8


class VersionedView:
    """The latest versions and the replaced ones at one moment."""

    def __init__(self, latest: FamilyView, history: SegmentedView, stream_time: int) -> None:
        self.latest = latest
        self.history = history
        self._end = encode_time(stream_time) + _AFTER_ALL_TIMES

    def overlaid(
        self, latest: SortedRows, history: Mapping[int, SortedRows], stream_time: int
    ) -> "VersionedView":
        """These versions at a later stream time, with newer rows over them; owns nothing."""
        above = OverlaidView(self.latest, latest)
        return VersionedView(above, self.history.overlaid(history, stream_time), stream_time)

    def get(self, key: bytes) -> bytes | None:
        return self.latest.get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return self.latest.get_many(keys)

    def reader(self) -> Get:
        """A function that gets latest versions of this moment, also after `close`."""
        return self.latest.reader()

    def pin(self) -> None:
        self.latest.pin()
        self.history.pin()

    def scan(
        self, *, lower: bytes | None = None, upper: bytes | None = None, reverse: bool = False
    ) -> Iterator[Row]:
        """The latest versions by key."""
        return self.latest.scan(lower=lower, upper=upper, reverse=reverse)

    def end_of(self, key: bytes) -> bytes:
        """The upper bound, exclusive, of a key's history: no row ends after stream time."""
        return key + self._end

    def ends_after(self, key: bytes, time: int) -> Row | None:
        """The first row of a key's history that ends after a time, a mark or a version."""
        rows = self.history.scan(
            lower=encode_version_key(key, 0, time + 1), upper=self.end_of(key), earliest=time + 1
        )
        length = len(key) + VERSION_SUFFIX_BYTES
        return next((row for row in rows if len(row[0]) == length), None)

    def close(self) -> None:
        """Releases the state; a running scan keeps its own hold."""
        self.latest.close()
        self.history.close()
