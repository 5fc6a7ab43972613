"""The failure that stops or delays one replica, and whether its start has ended."""

import asyncio
import logging

from qss_core.errors import (
    CorruptionError,
    DiskFullError,
    NotReadyError,
    StoreError,
    StoreTypeRefusedError,
)
from qss_core.model import PartitionId

_LOG = logging.getLogger(__name__)


class ReplicaHealth:
    """`settled` is set when the replica serves, or when the reason that it cannot is known."""

    def __init__(self, partition: PartitionId) -> None:
        self.failure: StoreError | None = None
        self.damage: CorruptionError | None = None  # What a reader met, while the replica goes on.
        self.settled = asyncio.Event()
        self._partition = partition

    def fail(self, error: Exception) -> StoreError:
        """Notes a lasting failure, and returns the error that writers get.

        A NotReadyError is the end that somebody asked for.
        """
        if not isinstance(error, NotReadyError):
            _LOG.error("partition %s stopped applying", self._partition, exc_info=error)
        unexpected = StoreError("the replica failed: see its log")
        self.failure = error if isinstance(error, StoreError) else unexpected
        return self.failure

    @property
    def has_stopped(self) -> bool:
        """Whether the failure neither passes by itself nor is an end that somebody asked for."""
        return self.failure is not None and not isinstance(
            self.failure, DiskFullError | NotReadyError | StoreTypeRefusedError
        )

    def stall(self, error: DiskFullError) -> None:
        """Notes that the disk is full: entries stay in the log until the disk has space."""
        if self.failure is None:
            _LOG.error("partition %s waits for disk space: %s", self._partition, error.message)
        self.failure = error
        self.settled.set()

    def go_on(self) -> None:
        """Forgets a full disk, after the waiting entries were applied."""
        if isinstance(self.failure, DiskFullError):
            self.failure = None
