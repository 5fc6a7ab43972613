"""Moves a pod's rows out of older formats in the background, one replica at a time.

Each step holds the event loop for about a millisecond. The pause after a step is so long that
migration gets its share of the time on any machine, and no more. Of a step that waited, for a disk
or because the process was stopped, at most 50 ms count.
"""

import asyncio
import logging

from qss_core.errors import StoreError
from qss_store.replicas.pod import Pod
from qss_store.replicas.replica import Replica
from qss_store.runtime.settings import Settings

_STEP_MAX_S = 0.05
_LOG = logging.getLogger(__name__)


def pause_after(step_s: float, share: float) -> float:
    """The seconds without migration after a step that took `step_s`."""
    return min(step_s, _STEP_MAX_S) * (1 / share - 1)


class Migrator:
    """The migrations of one pod's replicas."""

    def __init__(self, pod: Pod, settings: Settings) -> None:
        """Raises ValueError for a share of the time that is not above 0 and at most 1."""
        if not 0 < settings.migration_share <= 1:
            raise ValueError("QSS_MIGRATION_SHARE is a share of the time: above 0, at most 1")
        self._pod = pod
        self._settings = settings

    async def run(self) -> None:
        """Runs a round whenever rows may be in older formats, until it is cancelled."""
        while True:
            self._pod.rows_to_move.clear()
            is_done = False
            try:
                is_done = await self.round()
            except Exception:  # noqa: BLE001 the top of a task: said and logged.
                _LOG.exception("moving rows to the new format failed, and is tried again")
            try:
                async with asyncio.timeout(None if is_done else self._settings.migration_retry_s):
                    await self._pod.rows_to_move.wait()
            except TimeoutError:
                continue

    async def round(self) -> bool:
        """Moves the rows of all replicas; returns whether all rows have the store's format."""
        done = [
            await self._migrate(replica)
            for _, replica in sorted(self._pod.registry.replicas.items())
        ]
        return all(done)

    async def _migrate(self, replica: Replica) -> bool:
        """Moves the rows of one replica; returns whether all have the store's format."""
        clock, metrics = self._pod.clock, self._pod.metrics
        has_moved = False
        try:
            await replica.migration.compact()
            started = clock.monotonic_s()
            while step := await replica.format_change.move_rows(self._settings.migration_step_rows):
                has_moved = True
                metrics.migrated_records.inc(step.rows)
                took_s = clock.monotonic_s() - started
                await asyncio.sleep(pause_after(took_s, self._settings.migration_share))
                started = clock.monotonic_s()
        except StoreError as error:
            if replica.migration.failure is None:
                told = "partition %s: rows stay in an older format for now: %s"
                _LOG.warning(told, replica.partition, error.message)
            replica.migration.failure = error
            await self._pod.report_feed.tell()
            return False
        if has_moved:
            await self._pod.report_feed.tell()
        return replica.view is not None
