"""Keeps beside the databases what was synced of each, so that a start can miss what is gone.

A write-ahead log that was cut short opens without an error. What the marks do not see (a whole
volume that went back) the other pods see.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from qss_core.errors import StoreError
from qss_core.model import Offset, PartitionId, StoreId
from qss_store.replica import Replica
from qss_store.syncs import Syncs
from qss_store.volume import SyncMark, Volume

_LOG = logging.getLogger(__name__)
_INTERVAL_S = 1.0


class SyncMarks:
    """The marks of one pod's replicas."""

    def __init__(
        self, volume: Volume, syncs: Syncs, replicas: Mapping[PartitionId, Replica]
    ) -> None:
        self._volume = volume
        self._syncs = syncs
        self._replicas = replicas
        self._marks: dict[PartitionId, SyncMark] = {}
        self._round = asyncio.Lock()
        self._is_closed = False

    def begin(self, marks: Mapping[PartitionId, SyncMark]) -> None:
        """Takes what was kept: a partition that is not opened keeps its mark."""
        self._marks = dict(marks)

    async def renew(self, store_id: StoreId, partition: PartitionId) -> None:
        """Takes what is there for what was synced: a person went on with it."""
        async with self._round:
            self._marks.pop(partition, None)
        await self.round(store_id)

    @asynccontextmanager
    async def resting(self) -> AsyncIterator[None]:
        """Looks at no replica meanwhile: one may be closed."""
        async with self._round:
            yield

    async def close(self, store_id: StoreId | None) -> None:
        """Keeps the last marks; the replicas may be closed then."""
        if store_id is not None:
            await self.round(store_id)
        async with self._round:
            self._is_closed = True

    async def run(self, store_id: StoreId) -> None:
        """Keeps marks at most once a second, while something is synced; for ever."""
        while True:
            await self._syncs.has_synced.wait()
            self._syncs.has_synced.clear()
            await self.round(store_id)
            await asyncio.sleep(_INTERVAL_S)

    async def round(self, store_id: StoreId) -> None:
        """Keeps the marks of what has changed; a volume that refuses them is asked again later."""
        async with self._round:
            if self._is_closed:
                return
            changed = False
            for partition, replica in list(self._replicas.items()):
                held = self._marks.get(partition)
                end = replica.durable_end
                if end == 0 or (held is not None and held.end == end):
                    continue
                try:
                    self._marks[partition] = await _marked(replica, end)
                except (StoreError, OSError) as error:
                    _LOG.warning("partition %s: no mark is kept: %s", partition, error)
                else:
                    changed = True
            if not changed:
                return
            try:
                await asyncio.to_thread(self._volume.keep_marks, store_id, dict(self._marks))
            except OSError as error:
                _LOG.warning("what was synced cannot be kept on the volume: %s", error)
                self._syncs.has_synced.set()


async def _marked(replica: Replica, end: Offset) -> SyncMark:
    digest = replica.digest_of(Offset(end - 1))
    files = await asyncio.to_thread(replica.engine.mark)
    return SyncMark(end=end, digest=digest, files=files)
