"""The column families of a partition's rows.

A KeyValue partition has one family, `rows-<format>-<generation>` (`replace` starts the next
generation). A Window or Session partition has one family for each segment with rows,
`rows-<format>-<generation>-<segment id>`: an expired segment is dropped, and no row is rewritten. A
Versioned partition has both: the first family has the latest version of each key, which never
expires, and the segments have the replaced versions, by the end of their validity.

A store of a user's own type has the family `index-<fingerprint>-<generation>` of index rows, too.
Types that make other index rows have another fingerprint.

After a change of the format rows may be in families of older formats, each row in one family. Each
such family has a family in the store's format beside it, to which its rows move.
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

LATEST_FORMAT = Format.Timestamped  # A latest version: the start of its validity, then the value.
_ROWS = "rows-"
_INDEX = "index-"


@dataclass(frozen=True, slots=True)
class Source:
    """A family with rows in an older format, and the family that they move to."""

    family: str
    format: Format
    target: str


@dataclass(frozen=True, slots=True)
class ColumnFamilies:
    """The families of one partition's rows in one generation."""

    name: str
    segments: Segments | None
    format: Format
    # The names in the other formats that rows may still have.
    older: tuple[tuple[str, Format], ...] = ()
    has_latest: bool = False  # Whether the family `name` has rows beside those of the segments.
    indexing: Indexing | None = None
    index: str | None = None  # The family of the index rows, for a store of a user's own type.

    @classmethod
    @lru_cache(maxsize=64)  # Each commit calls it three times.
    def of(
        cls, definition: StoreDefinition, generation: int, indexing: Indexing | None = None
    ) -> "ColumnFamilies":
        """The families of a partition of the store."""
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
        """The segments among the `present` families, with their numbers."""
        return _segments(self.name, present)

    def sources(self, present: Iterable[str]) -> list[Source]:
        """The `present` families with rows in an older format, in order."""
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
        """The `present` segments that have rows at a stream time.

        With `is_applying` also the segments beyond the stream time.
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
        """The `present` families that no state at that stream time needs.

        These are index rows of another version of the store's type, expired segments, other
        generations, and segments beyond the stream time: an interrupted commit, which is applied
        again, has created them. A Versioned partition keeps them while the commit `is_applying`:
        they have the only copy of versions that the commit moved out of the latest versions.
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
        """The given families, and the families of each older format."""
        of_older = [
            ColumnFamilies(name, self.segments, one, has_latest=self.has_latest)
            for name, one in self.older
        ]
        return [self, *of_older]

    def lasting(self) -> tuple[str, ...]:
        """The family whose rows never expire, if there is one."""
        return (self.name,) if self.segments is None or self.has_latest else ()

    def of_generation(self, present: Iterable[str]) -> list[str]:
        """The `present` families of this generation; an interrupted commit has left them."""
        names = (self.name, *(name for name, _ in self.older))
        return sorted(
            one for one in present if one == self.index or any(_is_of(one, name) for name in names)
        )

    def open(self, engine: Engine) -> None:
        """Creates the families whose rows never expire, and those that rows will move to.

        Segments are created when rows are written into them.
        """
        index = () if self.index is None else (self.index,)
        targets = [one.target for one in self.sources(engine.families())]
        for name in (*self.lasting(), *index, *targets):
            engine.create_family(name)

    def view(self, engine: Engine, stream_time: int, moved: Mapping[str, bytes]) -> FamilyView:
        """A view of the rows at this moment.

        `moved` has the key below which a family of an older format has no rows left.
        """
        present = engine.families()
        older: dict[str, list[Source]] = {}
        for source in self.sources(present):
            older.setdefault(source.target, []).append(source)

        def rows_of(family: str) -> FamilyView:
            rows = engine.view(family)
            if family not in older:
                return rows
            return ConvertedView(
                rows,
                [
                    Older(engine.view(one.family), one.format, moved.get(one.family, b""))
                    for one in older[family]
                ],
                self.format,
            )

        if self.segments is None:
            rows = rows_of(self.name)
            return rows if self.index is None else IndexedView(rows, engine.view(self.index))
        live = self.live(present, stream_time)
        snapshots = {number: rows_of(family) for number, family in live.items()}
        segmented = SegmentedView(self.segments, snapshots, stream_time)
        if not self.has_latest:
            return segmented
        return VersionedView(engine.view(self.name), segmented, stream_time)

    def approximate_count(self, engine: Engine, stream_time: int) -> int:
        """The approximate number of rows; rows that retention hides count, too.

        Of versions only the latest ones count.
        """
        present = engine.families()
        counted = {*self.lasting()} or {*self.live(present, stream_time).values()}
        older = (one.family for one in self.sources(present) if one.target in counted)
        return sum(map(engine.approximate_count, (*counted, *older)))


def _name(written: Format, generation: int) -> str:
    return f"{_ROWS}{written}-{generation}"


def _is_of(family: str, name: str) -> bool:
    """Whether a family has that name or is a segment of it."""
    return family == name or family.startswith(f"{name}-")


def _segments(name: str, present: Iterable[str]) -> list[tuple[int, str]]:
    start = f"{name}-"
    return [(int(one.removeprefix(start)), one) for one in present if one.startswith(start)]
