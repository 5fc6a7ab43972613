"""The failure that stops or delays one replica, and whether its start has ended."""

import asyncio
import logging
from collections.abc import Mapping

from qss_core.errors import (
    CorruptionError,
    DiskFullError,
    NotReadyError,
    StoreError,
    StoreTypeRefusedError,
)
from qss_core.model import PartitionConfiguration, PartitionId
from qss_core.wire.replica_reports import UnlikeRows
from qss_store.storage.engine import Batch, Engine
from qss_store.storage.replica_identity import (
    known_damage,
    last_read_ms,
    put_damage,
    put_last_read,
)

_LOG = logging.getLogger(__name__)


class ReplicaHealth:
    """The failure, damage and alarm of a replica; `settled` is set once it serves or has failed."""

    def __init__(self, partition: PartitionId, engine: Engine, meta: Mapping[bytes, bytes]) -> None:
        """Takes the damage that the database keeps; a copy of the database keeps it, too."""
        self.failure: StoreError | None = None
        self.settled = asyncio.Event()
        self._partition = partition
        self._engine = engine
        self.damage = known_damage(meta)  # Damage that a reader met; the replica goes on.
        self.last_read_ms = last_read_ms(meta)  # The end of the last pass over all rows.
        # Other replicas have other rows, as the last comparison of all rows found.
        self.unlike: UnlikeRows | None = None
        self.waits_for_comparison = False  # The next replica in sync is to be compared soon.

    def fail(self, error: Exception) -> StoreError:
        """Notes a lasting failure, and returns the error that writers get.

        A NotReadyError is the end that somebody asked for.
        """
        if not isinstance(error, NotReadyError):
            _LOG.error("partition %s stopped applying", self._partition, exc_info=error)
        unexpected = StoreError("the replica failed: see its log")
        self.failure = error if isinstance(error, StoreError) else unexpected
        return self.failure

    def meet_damage(self, error: CorruptionError) -> None:
        """Notes and keeps damage that a reader met; on a full disk a restart forgets it."""
        is_new, self.damage = self.damage is None, error  # Each meeting is another object.
        if is_new:
            _LOG.error("partition %s is damaged: %s", self._partition, error.message)
            batch = self._engine.batch()
            put_damage(batch, error)
            self._keep(batch)

    def forget_damage(self) -> None:
        """Forgets the damage, after all rows were read and none was damaged."""
        if self.damage is not None:
            _LOG.warning("partition %s is not damaged any more", self._partition)
            self.damage = None
            batch = self._engine.batch()
            put_damage(batch, None)
            self._keep(batch)

    def configured(self, configuration: PartitionConfiguration) -> None:
        """Ends the alarm when no other replica is left.

        A replica that joins later may have the other rows, so a comparison is due soon.
        """
        if self.unlike is not None and len(configuration.replicas) == 1:
            self.unlike, self.waits_for_comparison = None, True

    def was_read(self, at_ms: int, *, is_compared: bool) -> None:
        """Notes and keeps when a pass over all rows ended, at its end or at a damaged block.

        It keeps no end of a pass that found unlike replicas, or none to compare with: the next
        pass begins soon.
        """
        self.last_read_ms, self.waits_for_comparison = at_ms, not is_compared
        if self.unlike is not None or self.waits_for_comparison:
            return
        batch = self._engine.batch()
        put_last_read(batch, at_ms)
        self._keep(batch)

    def _keep(self, batch: Batch) -> None:
        try:
            self._engine.write(batch)
        except StoreError as error:
            _LOG.warning("partition %s cannot keep its health: %s", self._partition, error.message)

    @property
    def has_failed(self) -> bool:
        """Whether the failure does not pass by itself, as a full disk does."""
        return self.failure is not None and not isinstance(self.failure, DiskFullError)

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
