"""Which families of the engine hold the rows of a partition.

A KeyValue partition has one, `rows-<format>-<generation>` (`replace` starts the next generation).
A Window or Session partition has one for each segment that holds rows,
`rows-<format>-<generation>-<segment id>`, so that expiry drops a family and rewrites nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from qss_core.model import StoreDefinition
from qss_core.segments import Segments, segments_of
from qss_store.engine.base import Engine, Snapshot
from qss_store.engine.segmented import SegmentedSnapshot

_ROWS = "rows-"


@dataclass(frozen=True, slots=True)
class Families:
    """The families of one partition's rows in one generation."""

    name: str
    segments: Segments | None

    @classmethod
    def of(cls, definition: StoreDefinition, generation: int) -> "Families":
        """Those of a store's partition."""
        return cls(f"{_ROWS}{definition.format}-{generation}", segments_of(definition))

    def of_segment(self, segment: int) -> str:
        """The family of a segment."""
        return f"{self.name}-{segment}"

    def live(self, present: Iterable[str], stream_time: int) -> dict[int, str]:
        """Those of `present` that hold rows at a stream time, by segment; 0 is the only one."""
        if self.segments is None:
            return {0: self.name}
        first = self.segments.first_live(stream_time)
        last = self.segments.segment_of(stream_time)
        start = f"{self.name}-"
        held = (int(name.removeprefix(start)) for name in present if name.startswith(start))
        return {number: self.of_segment(number) for number in held if first <= number <= last}

    def leftovers(self, present: Iterable[str], stream_time: int) -> list[str]:
        """Families of rows that no state at that stream time needs.

        Expired segments, other generations, and segments beyond stream time, which an interrupted
        commit has made: it is applied again.
        """
        present = tuple(present)
        live = set(self.live(present, stream_time).values())
        return sorted(name for name in present if name.startswith(_ROWS) and name not in live)

    def of_generation(self, present: Iterable[str]) -> list[str]:
        """Those of `present` that an interrupted attempt at this generation has left."""
        start = f"{self.name}-"
        return sorted(name for name in present if name == self.name or name.startswith(start))

    def open(self, engine: Engine) -> None:
        """Makes the one family of a partition without segments; segments come with their rows."""
        if self.segments is None:
            engine.create_family(self.name)

    def snapshot(self, engine: Engine, stream_time: int) -> Snapshot:
        """The rows as of now."""
        if self.segments is None:
            return engine.snapshot(self.name)
        live = self.live(engine.families(), stream_time)
        snapshots = {number: engine.snapshot(family) for number, family in live.items()}
        return SegmentedSnapshot(self.segments, snapshots, stream_time)

    def approximate_count(self, engine: Engine, stream_time: int) -> int:
        """About how many rows there are, those that retention hides among them."""
        live = self.live(engine.families(), stream_time)
        return sum(engine.approximate_count(family) for family in live.values())
