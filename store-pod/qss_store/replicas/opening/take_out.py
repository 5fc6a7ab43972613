"""Takes replicas out of their pod that have failed: for good, or to be opened again."""

import asyncio
import gc
import logging
from collections.abc import Callable, MutableMapping

from qss_core.errors import CorruptionError, StoreError
from qss_core.model import PartitionId
from qss_store.replicas.opening.unopened import Unopened
from qss_store.replicas.replica import Replica
from qss_store.replicas.report import ReportFeed
from qss_store.replicas.volume.sync_marks import SyncMarks
from qss_store.storage.engine import PassingError

_LOG = logging.getLogger(__name__)


async def close_replica(replica: Replica) -> None:
    """Closes a replica; that it did not close well keeps nothing else from being done."""
    try:
        await replica.close()
    except Exception:  # noqa: BLE001 its rows are durable, or damaged: said and logged.
        _LOG.exception("partition %s did not close well", replica.partition)


class TakingOut:
    """One pod's replicas that were taken in while they still made indexes, or waited for room.

    The damage that they meet then is found as it is where it is met at once: the partition is lost,
    and a person may accept that. One whose database failed for want of files, or of room, is closed
    and opened again: RocksDB takes no writes any more until then.
    """

    def __init__(
        self,
        replicas: MutableMapping[PartitionId, Replica],
        assigning: asyncio.Lock,
        unopened: Unopened,
        marks: SyncMarks,
        news: ReportFeed,
        reopen: Callable[[], None],
    ) -> None:
        """Changes `replicas` while it holds `assigning`; `reopen` tries those that wait."""
        self._replicas = replicas
        self._assigning = assigning
        self._unopened = unopened
        self._marks = marks
        self._news = news
        self._reopen = reopen
        self._tasks: set[asyncio.Task[None]] = set()

    async def spoilt(self, partition: PartitionId) -> None:
        """Takes out a replica that serves rows and takes no writes: a person gives up its rows."""
        async with self._assigning:
            replica = self._replicas.get(partition)
            if replica is not None and isinstance(replica.failure, CorruptionError):
                self._unopened.spoil(partition)
                await self._close(partition, replica, replica.failure)

    def begin(self, partition: PartitionId) -> None:
        """Takes a replica out soon that has failed, and shows nothing or is to be opened again."""
        task = asyncio.create_task(self._take_out(partition), name=f"take-out-{partition}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _take_out(self, partition: PartitionId) -> None:
        async with self._assigning:
            replica = self._replicas.get(partition)
            if replica is None:
                return
            failure = replica.failure
            is_lost = isinstance(failure, CorruptionError) and replica.view is None
            if failure is None or not (is_lost or isinstance(failure, PassingError)):
                return  # Somebody has opened the partition again.
            await self._close(partition, replica, failure)
            del replica
            gc.collect()  # The database holds its files' lock until nothing refers to it.
        self._reopen()
        await self._news.tell()

    async def _close(self, partition: PartitionId, replica: Replica, why: StoreError) -> None:
        del self._replicas[partition]
        self._unopened.note(partition, why)
        async with self._marks.resting():
            await close_replica(replica)

    def close(self) -> None:
        """Takes no more out; to be called where `assigning` is held."""
        for task in self._tasks:
            task.cancel()
