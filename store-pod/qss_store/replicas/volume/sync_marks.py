"""Keeps beside the databases what was synced of each, so that a start can miss what is gone.

A write-ahead log that was cut short opens without an error. What the marks do not see (a whole
volume that went back) the other pods see.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from qss_core.errors import NotReadyError, StoreError
from qss_core.model import Offset, PartitionId, StoreId
from qss_store.replicas.group_sync import GroupSync
from qss_store.replicas.replica import Replica
from qss_store.replicas.volume.kept_files import SyncMark, Volume
from qss_store.runtime.blocking import run_blocking

_LOG = logging.getLogger(__name__)
_INTERVAL_S = 1.0


class SyncMarks:
    """The marks of one pod's replicas."""

    def __init__(
        self,
        volume: Volume,
        syncs: GroupSync,
        replicas: Mapping[PartitionId, Replica],
        has_gone_on: Callable[[PartitionId], None],
    ) -> None:
        """`has_gone_on` is called once a renewed mark is kept."""
        self._has_gone_on = has_gone_on
        self._volume = volume
        self._syncs = syncs
        self._replicas = replicas
        self._marks: dict[PartitionId, SyncMark] = {}
        self._round = asyncio.Lock()
        self._is_closed = False
        self._is_owed = False  # The volume has refused the last ones.
        self._renewed: set[PartitionId] = set()  # Their marks are not kept yet.

    def begin(self, marks: Mapping[PartitionId, SyncMark]) -> None:
        """Takes what was kept: a partition that is not opened keeps its mark."""
        self._marks = dict(marks)

    async def renew(self, store_id: StoreId, partition: PartitionId) -> None:
        """Takes what is there for what was synced: a person went on with it.

        Raises NotReadyError where the volume refuses it now; a later round keeps it then.
        """
        async with self._round:
            self._marks.pop(partition, None)
            self._renewed.add(partition)
        await self.settle(store_id, partition)

    async def settle(self, store_id: StoreId, partition: PartitionId) -> None:
        """Keeps what was renewed and is not kept yet; raises as `renew`."""
        if partition in self._renewed:
            await self.round(store_id)
        if partition in self._renewed:
            raise NotReadyError(
                f"the volume does not keep yet that partition {partition} goes on: ask again"
            )

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
            changed = self._is_owed or bool(self._renewed)
            for partition, replica in list(self._replicas.items()):
                held = self._marks.get(partition)
                end = replica.durable_end
                if end == 0 or (held is not None and held.end == end):
                    continue
                try:
                    self._marks[partition] = await _marked(replica, end)
                except (StoreError, OSError, RuntimeError) as error:
                    _LOG.warning("partition %s: no mark is kept: %s", partition, error)
                else:
                    changed = True
            if not changed:
                return
            self._is_owed = True
            try:
                await run_blocking(self._volume.keep_marks, store_id, dict(self._marks))
                self._is_owed = False
                self._follow()
            except (OSError, RuntimeError) as error:  # No thread can be started, too.
                _LOG.warning("what was synced cannot be kept on the volume: %s", error)
            finally:
                if self._is_owed or self._renewed:
                    self._syncs.has_synced.set()  # It is tried again.

    def _follow(self) -> None:
        """Goes on with the partitions whose renewed marks are kept now."""
        for partition in self._renewed & self._marks.keys():
            self._has_gone_on(partition)
            self._renewed.discard(partition)


async def _marked(replica: Replica, end: Offset) -> SyncMark:
    digest = replica.digest_of(Offset(end - 1))
    files = await run_blocking(replica.engine.mark)
    return SyncMark(end=end, digest=digest, files=files)
