"""Moves the rows of one partition out of families of older formats, a few at a time.

A step writes rows in the store's format and deletes them where they were, in one batch, with how
far it came: the process may end after any of them. In a family of an older format nothing is put,
so no key below that place is left in it; readers and the next step begin there, and none of them
walks over what was deleted.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from qss_core.errors import MalformedBytesError, StoreError, unreadable
from qss_core.formats.values import Format, converter_of
from qss_core.model import StoreDefinition
from qss_core.wire.replica_reports import MigrationReport
from qss_store.runtime.blocking import run_blocking
from qss_store.storage.column_families import ColumnFamilies, Source
from qss_store.storage.engine import META, Batch, Engine, FamilyView
from qss_store.storage.replica_identity import put_definition

STEP_BYTES_MAX = 256 * 1024
_BELOW = b"moved-below:"  # And the family.
_COUNT = b"moved-rows"
_NUMBER = struct.Struct(">Q")


@dataclass(frozen=True, slots=True)
class Step:
    rows: int
    emptied: str | None  # A family that has no rows any more.


class Migration:
    """The migration of one partition; `failure` is why it does not go on."""

    def __init__(self, engine: Engine, meta: Mapping[bytes, bytes]) -> None:
        """Goes on where `meta` says that it was."""
        self._engine = engine
        self.failure: StoreError | None = None
        # By family: no key below is left in it.
        self.moved_below = {
            name.removeprefix(_BELOW).decode(): key
            for name, key in meta.items()
            if name.startswith(_BELOW)
        }
        self._rows = _NUMBER.unpack(meta[_COUNT])[0] if _COUNT in meta else 0
        # Families that rows come back to, below these keys full of deleted ones.
        self._hollow: dict[str, bytes] = {}

    # --- On its way

    def step(self, shown: FamilyView, families: ColumnFamilies, rows_max: int) -> Step | None:
        """Moves the next rows, so many at most; None where all have their format.

        `shown` stays what it is. Raises DiskFullError, and StoreError for a row that is not of its
        family's format.
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
        return Step(len(values), source.family if is_over and malformed is None else None)

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
        """Clears what was deleted in families that rows come back to, in a thread.

        Each scan that begins there would walk over it, and hold the event loop meanwhile.
        """
        while self._hollow:
            family, below = self._hollow.popitem()
            await run_blocking(self._engine.compact_family, family, below)

    # --- Beginning and end

    def prepare(self, definition: StoreDefinition, families: ColumnFamilies) -> None:
        """Makes the disk ready for another definition; it serves the present one as well."""
        families.open(self._engine)
        batch = self._engine.batch()
        put_definition(batch, definition)
        self.keep_only(batch, families)
        self._count_anew(batch)
        self._engine.write(batch)

    def finish(self, families: ColumnFamilies) -> None:
        """To be called after a family was dropped."""
        batch = self._engine.batch()
        self.keep_only(batch, families)
        self._engine.write(batch)

    def keep_only(self, batch: Batch, families: ColumnFamilies) -> None:
        """Forgets, in a batch to be written, how far it came in families that rows do not leave.

        Rows are put into such a family again, or it is gone.
        """
        sources = families.sources(self._engine.families())
        held = {source.family for source in sources}
        self._hollow |= {one: key for one, key in self.moved_below.items() if one not in held}
        self.moved_below = {one: key for one, key in self.moved_below.items() if one in held}
        # What the disk says counts: an earlier attempt may have been cut off before it was written.
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
        """How far it is; None where every row has the store's format."""
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
    """The rows up to the first malformed one, and what is wrong with that."""
    convert = converter_of(source, target)
    values: list[bytes | None] = []
    try:
        for row in rows:
            values.append(convert(row))  # noqa: PERF401 those before a malformed one are kept.
    except MalformedBytesError as error:
        return values, error
    return values, None
