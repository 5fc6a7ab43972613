"""Renews the sync marks: a start compares each database with its mark, and so finds lost data.

RocksDB opens a shortened write-ahead log without an error. The marks cannot show that a whole
volume went back to an older state: `writes.sequence_comparison` finds that.
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
        is_the_data: Callable[[Replica], bool],
    ) -> None:
        """`has_gone_on` is called after a renewed mark is kept.

        A replica that is not the data, because it is behind or was not compared yet, keeps its
        mark: a mark of older files would refuse the newer files that a person brings back.
        """
        self._has_gone_on = has_gone_on
        self._is_the_data = is_the_data
        self._volume = volume
        self._syncs = syncs
        self._replicas = replicas
        self._marks: dict[PartitionId, SyncMark] = {}
        self._round = asyncio.Lock()
        self._is_closed = False
        self._is_owed = False  # Whether keeping the last marks failed.
        self._renewed: set[PartitionId] = set()  # Partitions whose renewed marks are not kept yet.

    def begin(self, marks: Mapping[PartitionId, SyncMark]) -> None:
        """Takes the marks of the volume: a partition that is not opened keeps its mark."""
        self._marks = dict(marks)

    async def renew(self, store_id: StoreId, partition: PartitionId) -> None:
        """Makes a new mark of the partition's current data, after a person accepted its loss.

        Raises NotReadyError where keeping the mark failed; a later round keeps it then.
        """
        async with self._round:
            self._marks.pop(partition, None)
            self._renewed.add(partition)
        await self.settle(store_id, partition)

    async def forget(self, store_id: StoreId, partition: PartitionId) -> None:
        """Deletes the mark of a partition, durably, before its database is deleted.

        Raises NotReadyError where the marks cannot be written.
        """
        async with self._round:
            is_kept = self._marks.pop(partition, None) is not None
            if not is_kept and not self._is_owed:
                return
            self._is_owed = True
        await self.round(store_id)
        if self._is_owed:
            raise NotReadyError("the sync marks could not be written to the volume: try again")

    async def settle(self, store_id: StoreId, partition: PartitionId) -> None:
        """Keeps a renewed mark that is not kept yet; raises as `renew`."""
        if partition in self._renewed:
            await self.round(store_id)
        if partition in self._renewed:
            raise NotReadyError(
                f"the sync mark of partition {partition} could not be written to the volume: try "
                "again"
            )

    @asynccontextmanager
    async def resting(self) -> AsyncIterator[None]:
        """Reads no replica inside the context, so that replicas may be closed there."""
        async with self._round:
            yield

    async def close(self, store_id: StoreId | None) -> None:
        """Keeps the last marks; the replicas may be closed afterwards."""
        if store_id is not None:
            await self.round(store_id)
        async with self._round:
            self._is_closed = True

    async def run(self, store_id: StoreId) -> None:
        """Keeps the marks after syncs, at most once a second, until it is cancelled."""
        while True:
            await self._syncs.has_synced.wait()
            self._syncs.has_synced.clear()
            await self.round(store_id)
            await asyncio.sleep(_INTERVAL_S)

    async def round(self, store_id: StoreId) -> None:
        """Keeps the marks that have changed; a later round tries again where that fails."""
        async with self._round:
            if self._is_closed:
                return
            changed = self._is_owed or bool(self._renewed)
            for partition, replica in list(self._replicas.items()):
                held = self._marks.get(partition)
                end = replica.changelog.settled_end
                if end == 0 or (held is not None and held.end >= end):
                    continue
                if partition not in self._renewed and not self._is_the_data(replica):
                    continue
                try:
                    self._marks[partition] = await _marked(replica, end)
                except (StoreError, OSError, RuntimeError) as error:
                    _LOG.warning("partition %s: no new sync mark is kept: %s", partition, error)
                else:
                    changed = True
            if not changed:
                return
            self._is_owed = True
            try:
                await run_blocking(self._volume.keep_marks, store_id, dict(self._marks))
                self._is_owed = False
                self._follow()
            except (OSError, RuntimeError) as error:  # RuntimeError: no thread could be started.
                _LOG.warning("the sync marks could not be written to the volume: %s", error)
            finally:
                if self._is_owed or self._renewed:
                    self._syncs.has_synced.set()  # `run` tries again.

    def _follow(self) -> None:
        """Calls `has_gone_on` for the partitions whose renewed marks are kept now."""
        for partition in self._renewed & self._marks.keys():
            self._has_gone_on(partition)
            self._renewed.discard(partition)


async def _marked(replica: Replica, end: Offset) -> SyncMark:
    digest = replica.changelog.digest(Offset(end - 1))
    files = await run_blocking(replica.engine.mark)
    return SyncMark(end=end, digest=digest, files=files)
