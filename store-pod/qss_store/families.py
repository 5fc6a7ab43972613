"""Which families of the engine hold the rows of a partition.

A KeyValue partition has one, `rows-<format>-<generation>` (`replace` starts the next generation).
A Window or Session partition has one for each segment that holds rows,
`rows-<format>-<generation>-<segment id>`, so that expiry drops a family and rewrites nothing.
A Versioned partition has both: its latest versions, which never expire, in the one, those that were
replaced in the segments of their ends.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from qss_core.formats import Format
from qss_core.model import StoreDefinition, StoreType
from qss_core.segments import Segments, segments_of
from qss_store.engine.base import Engine, Snapshot
from qss_store.engine.segmented import SegmentedSnapshot
from qss_store.engine.versioned import VersionedSnapshot

LATEST_FORMAT = Format.Timestamped  # Of a latest version: the time from which it is valid, value.
_ROWS = "rows-"


@dataclass(frozen=True, slots=True)
class Families:
    """The families of one partition's rows in one generation."""

    name: str
    segments: Segments | None
    has_latest: bool = False  # Whether there are rows beside those of the segments.

    @classmethod
    def of(cls, definition: StoreDefinition, generation: int) -> "Families":
        """Those of a store's partition."""
        name = f"{_ROWS}{definition.format}-{generation}"
        return cls(name, segments_of(definition), definition.type is StoreType.VERSIONED)

    def of_segment(self, segment: int) -> str:
        """The family of a segment."""
        return f"{self.name}-{segment}"

    def segments_in(self, present: Iterable[str]) -> list[tuple[int, str]]:
        """Those of `present` that are segments, with their numbers."""
        start = f"{self.name}-"
        return [(int(one.removeprefix(start)), one) for one in present if one.startswith(start)]

    def live(
        self, present: Iterable[str], stream_time: int, *, is_applying: bool = False
    ) -> dict[int, str]:
        """The segments of `present` that hold rows at a stream time.

        With `is_applying` also those beyond it.
        """
        if self.segments is None:
            return {}
        first = self.segments.first_live(stream_time)
        last = math.inf if is_applying else self.segments.segment_of(stream_time)
        held = self.segments_in(present)
        return {number: name for number, name in held if first <= number <= last}

    def leftovers(
        self, present: Iterable[str], stream_time: int, *, is_applying: bool = False
    ) -> list[str]:
        """Families of rows that no state at that stream time needs.

        Expired segments, other generations, and segments beyond stream time, which an interrupted
        commit has made: it is applied again. What such a commit (`is_applying`) has moved out of
        the latest versions is nowhere else, so theirs stay.
        """
        present = tuple(present)
        keeps_ahead = is_applying and self.has_latest
        kept = set(self.live(present, stream_time, is_applying=keeps_ahead).values())
        kept.update(self._lasting())
        return sorted(name for name in present if name.startswith(_ROWS) and name not in kept)

    def _lasting(self) -> tuple[str, ...]:
        """The family whose rows do not expire, where there is one."""
        return (self.name,) if self.segments is None or self.has_latest else ()

    def of_generation(self, present: Iterable[str]) -> list[str]:
        """Those of `present` that an interrupted attempt at this generation has left."""
        start = f"{self.name}-"
        return sorted(name for name in present if name == self.name or name.startswith(start))

    def open(self, engine: Engine) -> None:
        """Makes the family whose rows do not expire; segments come with their rows."""
        for name in self._lasting():
            engine.create_family(name)

    def snapshot(self, engine: Engine, stream_time: int) -> Snapshot:
        """The rows as of now."""
        if self.segments is None:
            return engine.snapshot(self.name)
        live = self.live(engine.families(), stream_time)
        snapshots = {number: engine.snapshot(family) for number, family in live.items()}
        segmented = SegmentedSnapshot(self.segments, snapshots, stream_time)
        if not self.has_latest:
            return segmented
        return VersionedSnapshot(engine.snapshot(self.name), segmented, stream_time)

    def approximate_count(self, engine: Engine, stream_time: int) -> int:
        """About how many rows there are, those that retention hides among them.

        Of versions only the latest count.
        """
        counted = self._lasting() or self.live(engine.families(), stream_time).values()
        return sum(map(engine.approximate_count, counted))
