"""How a commit's rows are written (replication.md, "How a commit is applied").

A commit that fits one slice is one write. Otherwise `applying` is written first, then the slices,
and the last one carries the meta rows: a replica that opens with `applying` set writes the whole
commit again before it serves, which the log makes possible and puts and deletes make harmless.
"""

import asyncio
from collections.abc import Iterator

from qss_core.errors import CorruptionError
from qss_core.formats import Format
from qss_core.model import Offset
from qss_store.applying import StoreRows, store_slices
from qss_store.engine.base import META, PAYLOAD, Batch, Engine
from qss_store.replication.entries import encode_offset
from qss_store.transactions.participant import CommitPlan

APPLIED = b"applied"
APPLYING = b"applying"


def put_or_delete(batch: Batch, family: str, key: bytes, value: bytes | None) -> None:
    """Adds a change to a batch."""
    if value is None:
        batch.delete(family, key)
    else:
        batch.put(family, key, value)


class CommitWriter:
    """Writes one commit into a replica's engine."""

    def __init__(
        self, engine: Engine, store_format: Format, family: str, gate: asyncio.Lock
    ) -> None:
        """Writes rows in `store_format` into `family`; holds `gate` while it does."""
        self._engine = engine
        self._format = store_format
        self._family = family
        self._gate = gate

    async def write(self, offset: Offset, plan: CommitPlan, last: Batch) -> None:
        """Writes all rows, and `last`, the batch of meta rows, together with the last slice."""
        slices = store_slices(self._payloads(plan), self._format, plan.default_timestamp_ms)
        async with self._gate:
            ahead = next(slices, None)
            several = False
            for following in slices:
                assert ahead is not None
                if not several:
                    self._mark_applying(offset)
                    several = True
                self._write_slice(ahead)
                ahead = following
                await asyncio.sleep(0)  # Readers take their turn.
            if ahead is not None:
                last.put_rows(self._family, ahead.keys, ahead.values)
            last.delete(META, APPLYING)
            self._engine.write(last)

    def _payloads(self, plan: CommitPlan) -> Iterator[bytes]:
        for offset in plan.payloads:
            payload = self._engine.get(PAYLOAD, encode_offset(offset))
            if payload is None:
                raise CorruptionError(f"the rows of entry {offset} are missing from the changelog")
            yield payload

    def _mark_applying(self, offset: Offset) -> None:
        batch = self._engine.batch()
        batch.put(META, APPLYING, encode_offset(offset))
        self._engine.write(batch)

    def _write_slice(self, rows: StoreRows) -> None:
        batch = self._engine.batch()
        batch.put_rows(self._family, rows.keys, rows.values)
        self._engine.write(batch)
