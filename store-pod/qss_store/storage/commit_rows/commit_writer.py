"""Writes the rows of a commit.

A commit that fits one slice is one write. Otherwise `applying` is written first, then the slices;
the last slice carries the meta rows. A replica that opens with `applying` set writes the whole
commit again before it serves. The log still has the commit, and repeated puts and deletes change
nothing.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from qss_core.errors import CorruptionError
from qss_core.model import Offset
from qss_store.replication.entries import encode_offset
from qss_store.runtime.blocking import run_blocking
from qss_store.storage.commit_rows.row_slices import (
    LateRows,
    Payload,
    SliceLimits,
    StoreSlice,
    store_slices,
)
from qss_store.storage.engine import META, PAYLOAD, Batch, Engine
from qss_store.storage.family_names import ColumnFamilies
from qss_store.storage.placement.placed_rows import RowPlacer
from qss_store.transactions.commit_plan import CommitPlan

APPLIED = b"applied"
APPLYING = b"applying"


def put_or_delete(batch: Batch, family: str, key: bytes, value: bytes | None) -> None:
    if value is None:
        batch.delete(family, key)
    else:
        batch.put(family, key, value)


def read_payload(engine: Engine, offset: Offset) -> bytes:
    """The rows of a changelog entry. Raises CorruptionError if they are missing."""
    payload = engine.get(PAYLOAD, encode_offset(offset))
    if payload is None:
        raise CorruptionError(f"the rows of entry {offset} are missing from the changelog")
    return payload


async def drop_families(engine: Engine, families: Iterable[str]) -> None:
    """Drops families, in a thread: each takes as long as a few syncs."""
    for family in families:
        await run_blocking(engine.drop_family, family)


class CommitWriter:
    """Writes one commit into a replica's engine."""

    def __init__(
        self,
        engine: Engine,
        families: ColumnFamilies,
        placer: RowPlacer,
        gate: asyncio.Lock,
        decoded: Callable[[Offset], Payload | None],
        limits: SliceLimits,
    ) -> None:
        """Writes rows in the format of `families`, to the places that `placer` chooses.

        It holds `gate` meanwhile, so that no other task moves rows or changes their format.
        `decoded` returns the decoded rows of an entry, if they are in memory.
        """
        self._engine = engine
        self._decoded = decoded
        self._format = families.format
        self._limits = limits
        self._sources: dict[str, list[str]] = defaultdict(list)
        for source in families.sources(engine.families()):
            self._sources[source.target].append(source.family)
        self._placer = placer
        self._gate = gate

    async def write(self, offset: Offset, plan: CommitPlan, last: Batch) -> LateRows:
        """Writes all rows; the last slice includes `last`, the batch of meta rows.

        It creates missing families before their first rows. Returns the numbers of rows that no
        reader will see, because retention has ended for them.
        """
        slices = store_slices(
            self._payloads(plan),
            self._format,
            plan.default_timestamp_ms,
            self._placer,
            self._limits,
        )
        expired = hidden = 0
        async with self._gate:
            ahead = next(slices, None)
            several = False
            for following in slices:
                assert ahead is not None
                if not several:
                    self._mark_applying(offset)
                    several = True
                self._write_slice(ahead)
                expired, hidden = expired + ahead.late.expired, hidden + ahead.late.hidden
                ahead = following
                await asyncio.sleep(0)  # Readers take their turn.
            if ahead is not None:
                self._add_rows(last, ahead)
                expired, hidden = expired + ahead.late.expired, hidden + ahead.late.hidden
            last.delete(META, APPLYING)
            self._engine.write(last)
        return LateRows(expired, hidden)

    def _payloads(self, plan: CommitPlan) -> Iterator[Payload]:
        for offset in plan.payloads:
            yield self._decoded(offset) or read_payload(self._engine, offset)

    def _mark_applying(self, offset: Offset) -> None:
        batch = self._engine.batch()
        batch.put(META, APPLYING, encode_offset(offset))
        self._engine.write(batch)

    def _write_slice(self, rows: StoreSlice) -> None:
        batch = self._engine.batch()
        self._add_rows(batch, rows)
        self._engine.write(batch)

    def _add_rows(self, batch: Batch, rows: StoreSlice) -> None:
        if not rows.keys:
            return
        for part in self._placer.split(rows.keys, rows.values, rows.places):
            self._engine.create_family(part.family)
            batch.put_rows(part.family, part.keys, part.values)
            # A row is in one family only, so it is deleted from the families of older formats.
            for family in self._sources.get(part.family, ()):
                batch.put_rows(family, part.keys, [None] * len(part.keys))
