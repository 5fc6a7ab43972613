"""Deletes the replicas of a pod that their partitions' configurations leave out.

Until the operator asks for that, such a replica stays: the replicas that are left may not know yet
that they are alone.
"""

import logging
import shutil
from collections.abc import Awaitable, MutableMapping
from pathlib import Path

from qss_core.errors import CorruptionError, MalformedRequestError, NotReadyError, StoreError
from qss_core.model import Ordinal, PartitionId, StoreAssignment, StoreId
from qss_store.replicas.opening.open_database import Opening
from qss_store.replicas.opening.take_out import close_replica
from qss_store.replicas.opening.unopened_partitions import Unopened
from qss_store.replicas.replica import Replica
from qss_store.replicas.volume.kept_files import Volume
from qss_store.replicas.volume.sync_marks import SyncMarks
from qss_store.runtime.blocking import run_blocking
from qss_store.storage.database_files import sync_directory

_LOG = logging.getLogger(__name__)


class Retirement:
    """The end of the replicas of one pod; the caller holds the lock of its assignment."""

    def __init__(
        self,
        replicas: MutableMapping[PartitionId, Replica],
        unopened: Unopened,
        opening: Opening,
        marks: SyncMarks,
        volume: Volume,
    ) -> None:
        """Takes deleted replicas out of `replicas`."""
        self._replicas = replicas
        self._unopened = unopened
        self._opening = opening
        self._marks = marks
        self._volume = volume
        self._kept: set[PartitionId] = set()

    def is_left(self, partition: PartitionId) -> bool:
        """Whether the volume has a database of the partition that was not opened."""
        is_known = partition in self._replicas or self._unopened.is_lost(partition)
        # A partition that was kept, and assigned again, waits to be opened.
        is_kept = partition in self._kept and partition not in self._unopened.waiting
        if is_known or is_kept:
            return False
        return self._volume.database(partition).exists()

    def expect(self, assignment: StoreAssignment, pod: Ordinal) -> None:
        """Reports the replicas that the assignment leaves out as waiting, until they are opened.

        Otherwise the operator would take them for deleted while the pod starts.
        """
        for one in assignment.partitions:
            if one.role_of(pod) is None and self.is_left(one.partition):
                self._unopened.expect(one.partition)

    async def open(self, partition: PartitionId, opened: Awaitable[Replica]) -> bool:
        """Opens a left replica, so that the operator hears of it; returns whether it is open.

        Files that do not open stay as they are: they may be another pod's. The pod tries again
        where the reason may pass.
        """
        try:
            self._replicas[partition] = await opened
        except (CorruptionError, MalformedRequestError) as error:
            self._kept.add(partition)
            self._unopened.opened(partition)
            _LOG.warning(
                "partition %s is not this pod's, and is kept: %s", partition, error.message
            )
        except StoreError as error:
            self._unopened.wait(partition, error)
        else:
            self._unopened.opened(partition)
            return True
        return False

    def forget_unmade(self, partition: PartitionId) -> bool:
        """Ends the wait for a replica that was never made; returns whether the pod waited."""
        is_unmade = not self._volume.database(partition).exists()
        if partition not in self._unopened.waiting or not is_unmade:
            return False
        self._unopened.opened(partition)
        return True

    async def retire(self, store_id: StoreId, partition: PartitionId) -> None:
        """Closes the replica of a partition, and deletes its files and the pod's notes of it.

        Raises NotReadyError where the volume cannot be written.
        """
        await self._close(partition)
        path = self._volume.database(partition)
        if path.exists():
            # The mark goes before the files: a mark without files means lost data.
            await self._marks.forget(store_id, partition)
            self._opening.forget(partition)
            self._opening.free_databases()
            await run_blocking(_delete_directory, path, self._volume.retired(partition))
            _LOG.info("the replica of partition %s is deleted: other pods hold it", partition)
        self._unopened.opened(partition)

    async def _close(self, partition: PartitionId) -> None:
        replica = self._replicas.get(partition)
        if replica is None:
            return
        replica.fail(NotReadyError("it is being deleted"))
        del self._replicas[partition]
        async with self._marks.resting():
            await close_replica(replica)


def _delete_directory(path: Path, aside: Path) -> None:
    shutil.rmtree(aside, ignore_errors=True)
    path.rename(aside)
    sync_directory(path.parent)
    shutil.rmtree(aside, ignore_errors=True)
