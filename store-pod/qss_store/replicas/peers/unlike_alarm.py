"""Keeps in the database that the replicas of a partition have other rows, so that a start knows it.

The alarm of a replica ends when no other replica is left. The next replica in sync has to be
compared: the database keeps that mark in the alarm's place, until all rows were compared.
"""

import logging

from qss_core.errors import StoreError
from qss_core.model import PartitionConfiguration
from qss_core.wire.messages import decode, encode
from qss_core.wire.replica_reports import UnlikeRows
from qss_store.replicas.apply.replica_health import ReplicaHealth
from qss_store.storage.engine import META, Batch, Engine

_LOG = logging.getLogger(__name__)
_UNLIKE = b"unlike"
_WAITS = b""  # The value where rows wait for a comparison without an alarm.


class UnlikeAlarm:
    """The alarm of one replica. `ReplicaHealth` has it in memory, with a comparison that is due."""

    def __init__(self, health: ReplicaHealth, engine: Engine) -> None:
        """Gives `health` the alarm that the database keeps; a start writes nothing."""
        self._health = health
        self._engine = engine
        kept = engine.get(META, _UNLIKE)
        health.waits_for_comparison = kept == _WAITS
        health.unlike = decode(kept, UnlikeRows) if kept else None

    def compared(self, unlike: UnlikeRows | None) -> None:
        """Takes the result of a comparison: None where the rows of all replicas are the same."""
        self._health.unlike, self._health.waits_for_comparison = unlike, False
        self._keep()

    def configured(self, configuration: PartitionConfiguration) -> None:
        """Ends the alarm when no other replica is left; the next one is compared soon."""
        self._health.configured(configuration)
        self._keep()

    def _keep(self) -> None:
        """Makes the database keep the state; a restart forgets it where the disk takes no write."""
        unlike = self._health.unlike
        wanted = _WAITS if self._health.waits_for_comparison else None
        wanted = wanted if unlike is None else encode(unlike)
        try:
            if self._engine.get(META, _UNLIKE) == wanted:
                return
            batch = self._engine.batch()
            if wanted is None:
                forget_alarm(batch)
            else:
                batch.put(META, _UNLIKE, wanted)
            self._engine.write(batch)
        except StoreError as error:
            _LOG.warning("the alarm about unlike rows cannot be kept: %s", error.message)


def forget_alarm(batch: Batch) -> None:
    """Adds the end of the alarm to a batch, as for a copy, whose rows equal its source's."""
    batch.delete(META, _UNLIKE)
