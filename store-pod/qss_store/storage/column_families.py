"""Which families of the engine hold the rows of a partition.

A KeyValue partition has one, `rows-<format>-<generation>` (`replace` starts the next generation).
A Window or Session partition has one for each segment that holds rows,
`rows-<format>-<generation>-<segment id>`, so that expiry drops a family and rewrites nothing.
A Versioned partition has both: its latest versions, which never expire, in the one, those that were
replaced in the segments of their ends.

A store of a user's own type has one more, `index-<fingerprint>-<generation>`, of its index rows;
the fingerprint names what the type would say of a row.

Where the format was changed, rows may still lie in families of the older formats, each row in one
family. Every family of an older format then has the one in the store's format beside it.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from qss_core.formats.segments import Segments, segments_of
from qss_core.formats.values import Format
from qss_core.model import StoreDefinition, StoreType
from qss_core.spec.resource import formats_of
from qss_store.storage.engine import Engine, FamilyView
from qss_store.storage.index_keys import Indexing
from qss_store.storage.views.converted import ConvertedView, Older
from qss_store.storage.views.indexed import IndexedView
from qss_store.storage.views.segmented import SegmentedView
from qss_store.storage.views.versioned import VersionedView

LATEST_FORMAT = Format.Timestamped  # Of a latest version: the time from which it is valid, value.
_ROWS = "rows-"
_INDEX = "index-"


@dataclass(frozen=True, slots=True)
class Source:
    """A family whose rows are of an older format, and the one that they move to."""

    family: str
    format: Format
    target: str


@dataclass(frozen=True, slots=True)
class ColumnFamilies:
    """The families of one partition's rows in one generation."""

    name: str
    segments: Segments | None
    format: Format
    # The names in the formats that rows may still have, the one they are written in left out.
    older: tuple[tuple[str, Format], ...] = ()
    has_latest: bool = False  # Whether there are rows beside those of the segments.
    indexing: Indexing | None = None
    index: str | None = None  # The family of the index rows, where there are some.

    @classmethod
    @lru_cache(maxsize=64)  # Each commit asks three times.
    def of(
        cls, definition: StoreDefinition, generation: int, indexing: Indexing | None = None
    ) -> "ColumnFamilies":
        """Those of a store's partition."""
        written = Format(definition.format)
        older = tuple(
            (_name(one, generation), one)
            for one in formats_of(definition.type)
            if one is not written
        )
        return cls(
            name=_name(written, generation),
            segments=segments_of(definition),
            format=written,
            older=older,
            has_latest=definition.type is StoreType.VERSIONED,
            indexing=indexing,
            index=None if indexing is None else f"{_INDEX}{indexing.fingerprint}-{generation}",
        )

    def of_segment(self, segment: int) -> str:
        """The family of a segment."""
        return f"{self.name}-{segment}"

    def segments_in(self, present: Iterable[str]) -> list[tuple[int, str]]:
        """Those of `present` that are segments, with their numbers."""
        return _segments(self.name, present)

    def sources(self, present: Iterable[str]) -> list[Source]:
        """Those of `present` whose rows have an older format, in order."""
        present = sorted(present)
        return [
            Source(family, one, f"{self.name}{family.removeprefix(name)}")
            for name, one in self.older
            for family in present
            if _is_of(family, name)
        ]

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

        Index rows of another version of a store's type, expired segments, other generations, and
        segments beyond stream time, which an interrupted commit has made: it is applied again. What
        such a commit (`is_applying`) has moved out of the latest versions is nowhere else, so
        theirs stay.
        """
        present = tuple(present)
        keeps_ahead = is_applying and self.has_latest
        kept = {
            name
            for one in self._each()
            for name in (
                *one.live(present, stream_time, is_applying=keeps_ahead).values(),
                *one.lasting(),
            )
        }
        kept.add(self.index or "")
        return sorted(
            name for name in present if name.startswith((_ROWS, _INDEX)) and name not in kept
        )

    def _each(self) -> "list[ColumnFamilies]":
        """These, and those of the older formats."""
        of_older = [
            ColumnFamilies(name, self.segments, one, has_latest=self.has_latest)
            for name, one in self.older
        ]
        return [self, *of_older]

    def lasting(self) -> tuple[str, ...]:
        """The family whose rows do not expire, where there is one."""
        return (self.name,) if self.segments is None or self.has_latest else ()

    def of_generation(self, present: Iterable[str]) -> list[str]:
        """Those of `present` that an interrupted attempt at this generation has left."""
        names = (self.name, *(name for name, _ in self.older))
        return sorted(
            one for one in present if one == self.index or any(_is_of(one, name) for name in names)
        )

    def open(self, engine: Engine) -> None:
        """Makes the families whose rows do not expire, and those that rows are to move to.

        Segments come with their rows.
        """
        index = () if self.index is None else (self.index,)
        targets = [one.target for one in self.sources(engine.families())]
        for name in (*self.lasting(), *index, *targets):
            engine.create_family(name)

    def snapshot(self, engine: Engine, stream_time: int, moved: Mapping[str, bytes]) -> FamilyView:
        """The rows as of now; `moved` says below which keys families of older formats are empty."""
        present = engine.families()
        older: dict[str, list[Source]] = {}
        for source in self.sources(present):
            older.setdefault(source.target, []).append(source)

        def rows_of(family: str) -> FamilyView:
            rows = engine.snapshot(family)
            if family not in older:
                return rows
            return ConvertedView(
                rows,
                [
                    Older(engine.snapshot(one.family), one.format, moved.get(one.family, b""))
                    for one in older[family]
                ],
                self.format,
            )

        if self.segments is None:
            rows = rows_of(self.name)
            return rows if self.index is None else IndexedView(rows, engine.snapshot(self.index))
        live = self.live(present, stream_time)
        snapshots = {number: rows_of(family) for number, family in live.items()}
        segmented = SegmentedView(self.segments, snapshots, stream_time)
        if not self.has_latest:
            return segmented
        return VersionedView(engine.snapshot(self.name), segmented, stream_time)

    def approximate_count(self, engine: Engine, stream_time: int) -> int:
        """About how many rows there are, those that retention hides among them.

        Of versions only the latest count.
        """
        present = engine.families()
        counted = {*self.lasting()} or {*self.live(present, stream_time).values()}
        older = (one.family for one in self.sources(present) if one.target in counted)
        return sum(map(engine.approximate_count, (*counted, *older)))


def _name(written: Format, generation: int) -> str:
    return f"{_ROWS}{written}-{generation}"


def _is_of(family: str, name: str) -> bool:
    """Whether a family is the one of that name or a segment of it."""
    return family == name or family.startswith(f"{name}-")


def _segments(name: str, present: Iterable[str]) -> list[tuple[int, str]]:
    start = f"{name}-"
    return [(int(one.removeprefix(start)), one) for one in present if one.startswith(start)]
