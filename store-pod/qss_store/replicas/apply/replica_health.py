"""Why one replica takes no writes, where it does not, and whether its start has ended."""

import asyncio
import logging

from qss_core.errors import DiskFullError, StoreError
from qss_core.model import PartitionId

_LOG = logging.getLogger(__name__)


class ReplicaHealth:
    """`settled` is set once the replica serves, or the reason why it does not is known."""

    def __init__(self, partition: PartitionId) -> None:
        self.failure: StoreError | None = None
        self.settled = asyncio.Event()
        self._partition = partition

    def fail(self, error: Exception) -> StoreError:
        """Notes a failure that no later entry mends, as the writers are told of it."""
        _LOG.error("partition %s stopped applying", self._partition, exc_info=error)
        unexpected = StoreError("the replica failed: see its log")
        self.failure = error if isinstance(error, StoreError) else unexpected
        return self.failure

    def stall(self, error: DiskFullError) -> None:
        """Notes that the disk is full: entries stay in the log and are applied once it has room."""
        if self.failure is None:
            _LOG.error("partition %s waits for disk space: %s", self._partition, error.message)
        self.failure = error
        self.settled.set()

    def go_on(self) -> None:
        """Forgets a full disk: the entries that waited are applied."""
        if isinstance(self.failure, DiskFullError):
            self.failure = None
