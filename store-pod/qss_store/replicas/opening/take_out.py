"""Takes failed replicas out of their pod, for good or until they are opened again."""

import asyncio
import gc
import logging
from collections.abc import Callable, MutableMapping

from qss_core.errors import CorruptionError, NotReadyError, StoreError
from qss_core.model import PartitionId
from qss_store.replicas.opening.unopened_partitions import Unopened
from qss_store.replicas.replica import Replica
from qss_store.replicas.report import ReportFeed
from qss_store.replicas.volume.sync_marks import SyncMarks
from qss_store.storage.engine import PassingError

_LOG = logging.getLogger(__name__)


async def close_replica(replica: Replica) -> None:
    """Closes a replica; an error is logged and ignored."""
    try:
        await replica.close()
    except Exception:  # noqa: BLE001 its acknowledged rows are durable already.
        _LOG.exception("closing partition %s failed", replica.partition)


class TakingOut:
    """Takes out replicas of one pod that failed after they were opened.

    A replica that finds damage before it serves is lost, as if it had not opened: a person may
    accept the loss. A replica whose database had too few files, or no space, is closed and opened
    again: RocksDB takes no writes before that.
    """

    def __init__(
        self,
        replicas: MutableMapping[PartitionId, Replica],
        assigning: asyncio.Lock,
        unopened: Unopened,
        marks: SyncMarks,
        report_feed: ReportFeed,
        reopen: Callable[[], None],
    ) -> None:
        """Changes `replicas` while it holds `assigning`; `reopen` opens waiting partitions."""
        self._replicas = replicas
        self._assigning = assigning
        self._unopened = unopened
        self._marks = marks
        self._report_feed = report_feed
        self._reopen = reopen
        self._tasks: set[asyncio.Task[None]] = set()

    async def take_out_unwritable(self, partition: PartitionId) -> None:
        """Takes out a replica that takes no writes; a person accepted the loss of its rows."""
        async with self._assigning:
            replica = self._replicas.get(partition)
            if replica is not None and isinstance(replica.failure, CorruptionError):
                self._unopened.note_unwritable(partition)
                await self._close(partition, replica, replica.failure)

    def begin(self, partition: PartitionId) -> None:
        """Takes out a failed replica soon, in a task of its own."""
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
                return  # The partition was opened again meanwhile.
            await self._close(partition, replica, failure)
            del replica
            gc.collect()  # The database holds its files' lock until nothing refers to it.
        self._reopen()
        await self._report_feed.tell()

    async def close_now(self, partition: PartitionId, replica: Replica) -> None:
        """Closes a replica whose database is replaced; the caller holds `assigning`.

        Until the partition is opened from its new files, it waits for them.
        """
        why = NotReadyError("its database is being replaced")
        replica.fail(why)  # Entries that it takes from now on are not acknowledged.
        await self._close(partition, replica, why)

    async def _close(self, partition: PartitionId, replica: Replica, why: StoreError) -> None:
        del self._replicas[partition]
        self._unopened.note(partition, why)
        async with self._marks.resting():
            await close_replica(replica)

    def close(self) -> None:
        """Cancels the tasks; the caller holds `assigning`."""
        for task in self._tasks:
            task.cancel()
