"""Moves the rows of one partition out of families of older formats, a few at a time.

One batch of a step writes rows in the store's format, deletes them from their old family, and keeps
the key below which that family is empty: the process may end after any step. New rows never go into
a family of an older format. So readers and the next step begin at that key, and do not walk over
deleted rows.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from qss_core.errors import MalformedBytesError, StoreError, unreadable
from qss_core.formats.values import Format, converter_of
from qss_core.model import StoreDefinition
from qss_core.wire.replica_reports import MigrationReport
from qss_store.runtime.blocking import run_blocking
from qss_store.storage.engine import META, Batch, Engine, FamilyView
from qss_store.storage.family_names import ColumnFamilies, Source
from qss_store.storage.replica_identity import put_definition

STEP_BYTES_MAX = 256 * 1024
_BELOW = b"moved-below:"  # The family's name follows.
_COUNT = b"moved-rows"
_NUMBER = struct.Struct(">Q")


@dataclass(frozen=True, slots=True)
class MovedRows:
    rows: int
    emptied: str | None  # The family that this step has emptied.


class Migration:
    """The migration of one partition; `failure` is the reason where it stands still."""

    def __init__(self, engine: Engine, meta: Mapping[bytes, bytes]) -> None:
        """Continues at the keys that `meta` has."""
        self._engine = engine
        self.failure: StoreError | None = None
        # By family, the key below which it is empty.
        self.moved_below = {
            name.removeprefix(_BELOW).decode(): key
            for name, key in meta.items()
            if name.startswith(_BELOW)
        }
        self._rows = _NUMBER.unpack(meta[_COUNT])[0] if _COUNT in meta else 0
        # Families that get rows again, with the keys below which they are full of deleted rows.
        self._hollow: dict[str, bytes] = {}

    # --- Moving rows

    def step(self, shown: FamilyView, families: ColumnFamilies, rows_max: int) -> MovedRows | None:
        """Moves the next rows, at most `rows_max`; None where all rows have the store's format.

        The view `shown` stays the same. Raises DiskFullError, and StoreError for a row that does
        not have the format of its family.
        """
        source = next(iter(families.sources(self._engine.families())), None)
        if source is None:
            return None
        keys, rows, is_over = self._next_rows(source, rows_max)
        values, malformed = _converted(rows, source.format, families.format)
        if malformed is not None and not values:
            raise unreadable(malformed) from malformed
        if values:
            shown.pin()
            self._move(source, keys[: len(values)], values)
        self.failure = None
        return MovedRows(len(values), source.family if is_over and malformed is None else None)

    def _next_rows(self, source: Source, rows_max: int) -> tuple[list[bytes], list[bytes], bool]:
        start = self.moved_below.get(source.family)
        keys: list[bytes] = []
        rows: list[bytes] = []
        size = 0
        for key, row in self._engine.scan(source.family, lower=start):
            if len(keys) >= rows_max or size >= STEP_BYTES_MAX:
                return keys, rows, False
            keys.append(key)
            rows.append(row)
            size += len(key) + len(row)
        return keys, rows, True

    def _move(self, source: Source, keys: list[bytes], values: list[bytes | None]) -> None:
        below = keys[-1] + b"\x00"
        batch = self._engine.batch()
        batch.put_rows(source.target, keys, values)
        batch.put_rows(source.family, keys, [None] * len(keys))
        batch.put(META, _BELOW + source.family.encode(), below)
        batch.put(META, _COUNT, _NUMBER.pack(self._rows + len(keys)))
        self._engine.write(batch)
        self.moved_below[source.family] = below
        self._rows += len(keys)

    async def compact(self) -> None:
        """Clears the deleted rows of families that get rows again, in a thread.

        A scan that begins there would walk over the deleted rows, and hold the event loop.
        """
        while self._hollow:
            family, below = self._hollow.popitem()
            await run_blocking(self._engine.compact_family, family, below)

    # --- Beginning and end

    def prepare(self, definition: StoreDefinition, families: ColumnFamilies) -> None:
        """Prepares the disk for another definition; it fits the present definition, too."""
        families.open(self._engine)
        batch = self._engine.batch()
        put_definition(batch, definition)
        self.keep_only(batch, families)
        self._count_anew(batch)
        self._engine.write(batch)

    def finish(self, families: ColumnFamilies) -> None:
        """Keeps the progress after an emptied family was dropped."""
        batch = self._engine.batch()
        self.keep_only(batch, families)
        self._engine.write(batch)

    def keep_only(self, batch: Batch, families: ColumnFamilies) -> None:
        """Deletes, in `batch`, the progress of families that are no source of rows any more.

        Such a family gets rows again, or was dropped.
        """
        sources = families.sources(self._engine.families())
        held = {source.family for source in sources}
        self._hollow |= {one: key for one, key in self.moved_below.items() if one not in held}
        self.moved_below = {one: key for one, key in self.moved_below.items() if one in held}
        # Read the progress from the disk: a crash may have ended an earlier call before its write.
        for name, _ in self._engine.scan(META, lower=_BELOW, upper=_BELOW + b"\xff"):
            if name.removeprefix(_BELOW).decode() not in held:
                batch.delete(META, name)
        if not sources:
            self._count_anew(batch)

    def _count_anew(self, batch: Batch) -> None:
        self.failure = None
        self._rows = 0
        batch.delete(META, _COUNT)

    def report(self, families: ColumnFamilies) -> MigrationReport | None:
        """The progress of the migration; None where every row has the store's format."""
        sources = families.sources(self._engine.families())
        if not sources:
            return None
        return MigrationReport(
            formats=tuple(sorted({source.format.value for source in sources})),
            rows_moved=self._rows,
            rows_left=sum(self._engine.approximate_count(one.family) for one in sources),
            error=self.failure.message if self.failure else None,
        )


def _converted(
    rows: Sequence[bytes], source: Format, target: Format
) -> tuple[list[bytes | None], MalformedBytesError | None]:
    """The converted rows up to the first malformed row, and the error of that row."""
    convert = converter_of(source, target)
    values: list[bytes | None] = []
    try:
        for row in rows:
            values.append(convert(row))  # noqa: PERF401 those before a malformed one are kept.
    except MalformedBytesError as error:
        return values, error
    return values, None
