"""Rebuilds the index rows of a partition after the store type's indexes have changed.

It runs before the partition serves, so no rows are written meanwhile. It writes a few rows at a
time, together with its progress: the process may end after any write. The family of the old indexes
is dropped when the new build begins.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from itertools import islice

from qss_core.errors import DiskFullError
from qss_core.formats.values import decode_value
from qss_core.model import Wire
from qss_core.wire.messages import decode, encode
from qss_core.wire.replica_reports import IndexReport
from qss_store.storage.commit_rows.row_slices import SliceLimits
from qss_store.storage.engine import META, Engine, FamilyView
from qss_store.storage.family_names import ColumnFamilies

_LOG = logging.getLogger(__name__)
_STATE = b"index"
_DISK_FULL_RETRY_S = 1.0
_ROWS = "rows-"
_KeysAndRows = list[tuple[bytes, bytes]]


class _State(Wire, frozen=True, kw_only=True):
    """The progress of a build: it has the rows of keys below `below`; None: all rows."""

    fingerprint: str
    below: bytes | None = None


class IndexBuild:
    """The build of one partition's index rows."""

    def __init__(
        self, engine: Engine, meta: Mapping[bytes, bytes], partition: int, limits: SliceLimits
    ) -> None:
        """Continues at the progress in `meta`."""
        self._engine = engine
        self._limits = limits
        self._partition = partition
        self._state = decode(meta[_STATE], _State) if _STATE in meta else None
        self._rows = 0

    def begin(self, families: ColumnFamilies) -> None:
        """Begins a build if the indexes have changed; call it before families are dropped."""
        indexing = families.indexing
        if indexing is None or (self._state and self._state.fingerprint == indexing.fingerprint):
            return
        is_new = not any(name.startswith(_ROWS) for name in self._engine.families())
        below = None if is_new else b""
        self._keep(_State(fingerprint=indexing.fingerprint, below=below))

    @property
    def is_done(self) -> bool:
        """Whether every row has its index rows, or the store has no index."""
        return self._state is None or self._state.below is None

    async def run(
        self,
        families: ColumnFamilies,
        moved: Mapping[str, bytes],
        gate: asyncio.Lock,
        stalled: Callable[[DiskFullError], None],
    ) -> None:
        """Builds the missing index rows, a few rows each time that it holds `gate`.

        `moved` is as for `ColumnFamilies.view`. On a full disk it calls `stalled`, and tries
        again. Raises StoreTypeFailedError for a row that the type refuses; finished rows stay.
        """
        while not self.is_done:
            try:
                await self._run(families, moved, gate)
            except DiskFullError as error:
                stalled(error)
                await asyncio.sleep(_DISK_FULL_RETRY_S)

    async def _run(
        self, families: ColumnFamilies, moved: Mapping[str, bytes], gate: asyncio.Lock
    ) -> None:
        assert families.indexing is not None, "only indexes are made"
        name = f"{families.indexing.name} (version {families.indexing.version})"
        told = "partition %s: the indexes of store type %s are being made"
        _LOG.info(told, self._partition, name)
        rows = families.view(self._engine, -1, moved)
        try:
            for some in _portions(rows, self._below, self._limits):
                async with gate:
                    self._make(families, some)
                await asyncio.sleep(0)  # Other requests take their turn.
        finally:
            rows.close()
        self._keep(_State(fingerprint=families.indexing.fingerprint))
        told = "partition %s: the indexes of store type %s are made: %d rows"
        _LOG.info(told, self._partition, name, self._rows)

    @property
    def _below(self) -> bytes:
        assert self._state is not None, "it has begun"
        return self._state.below or b""

    def _make(self, families: ColumnFamilies, rows: _KeysAndRows) -> None:
        assert families.indexing is not None
        assert families.index is not None
        made: dict[bytes, bytes | None] = {}
        for key, row in rows:
            made |= families.indexing.rows_of(key, decode_value(families.format, row))
        state = _State(fingerprint=families.indexing.fingerprint, below=rows[-1][0] + b"\x00")
        batch = self._engine.batch()
        batch.put_rows(families.index, [*made], [*made.values()])
        batch.put(META, _STATE, encode(state))
        self._engine.write(batch)
        self._state = state
        self._rows += len(rows)

    def _keep(self, state: _State) -> None:
        batch = self._engine.batch()
        batch.put(META, _STATE, encode(state))
        self._engine.write(batch)
        self._state = state

    def report(self, families: ColumnFamilies) -> IndexReport | None:
        """The progress; None if all index rows are complete."""
        if self.is_done:
            return None
        everything = families.approximate_count(self._engine, -1)
        return IndexReport(rows_done=self._rows, rows_left=max(0, everything - self._rows))


def _portions(rows: FamilyView, below: bytes, limits: SliceLimits) -> Iterator[_KeysAndRows]:
    """The rows from a key on, in portions within the limits."""
    left = rows.scan(lower=below or None)
    while some := [*islice(left, limits.rows)]:
        size, start = 0, 0
        for at, (key, row) in enumerate(some):
            size += len(key) + len(row)
            if size > limits.size and at > start:
                yield some[start:at]
                start, size = at, len(key) + len(row)
        yield some[start:]
