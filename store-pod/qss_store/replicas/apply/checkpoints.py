"""Copies one replica's database for a learner, and keeps the entries behind the copy."""

from pathlib import Path

from qss_core.model import Ordinal
from qss_store.replicas.apply.replica_parts import ReplicaParts
from qss_store.runtime.blocking import run_blocking

_PIN_S = 600.0  # How long entries behind a copy are kept for the learner that makes it.


class Checkpoints:
    """Makes the copies of one replica's database."""

    def __init__(self, parts: ReplicaParts) -> None:
        self._parts = parts

    async def make(self, path: Path, learner: Ordinal) -> None:
        """Copies the database to `path`, between two commits; its entries are durable here, too.

        The entries behind the copy are kept for the learner on that pod. A sole active that lost
        entries goes on in its epoch: no learner may hold them.
        """
        engine, changelog = self._parts.engine, self._parts.changelog
        pins = changelog.retention.pins
        await run_blocking(engine.flush)
        async with self._parts.changing:
            pins[learner] = (changelog.log.applied, self._pinned_until_s())
            await run_blocking(engine.checkpoint, path)
        await changelog.sync()

    def keep_entries(self, learner: Ordinal) -> None:
        """Keeps the entries behind a learner's last copy for longer: it still reads the copy."""
        pins = self._parts.changelog.retention.pins
        if learner in pins:
            pins[learner] = (pins[learner][0], self._pinned_until_s())

    def _pinned_until_s(self) -> float:
        return self._parts.context.clock.monotonic_s() + _PIN_S
