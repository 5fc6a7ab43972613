"""A pod's background pass over rows in older formats: one replica at a time, at a bounded pace.

Each step holds the event loop for about a millisecond; between two of them the loop is left alone
for so long that migration has its share of the time and not more, however quick the machine is.
"""

import asyncio
import logging

from qss_core.errors import StoreError
from qss_store.replicas.pod import Pod
from qss_store.replicas.replica import Replica
from qss_store.runtime.settings import Settings

_LOG = logging.getLogger(__name__)


class Migrator:
    """The migrations of one pod's replicas."""

    def __init__(self, pod: Pod, settings: Settings) -> None:
        """Works on the pod until its task is cancelled."""
        if not 0 < settings.migration_share <= 1:
            raise ValueError("QSS_MIGRATION_SHARE is a part of the time: above 0, and 1 at most")
        self._pod = pod
        self._settings = settings
        # A step of one second is followed by so many seconds of rest.
        self._rest = 1 / settings.migration_share - 1

    async def run(self) -> None:
        """Rounds, whenever there may be rows to move."""
        while True:
            self._pod.rows_to_move.clear()
            is_done = False
            try:
                is_done = await self.round()
            except Exception:  # noqa: BLE001 the top of a task: said and logged.
                _LOG.exception("the migration of rows is tried again")
            try:
                async with asyncio.timeout(None if is_done else self._settings.migration_retry_s):
                    await self._pod.rows_to_move.wait()
            except TimeoutError:
                continue

    async def round(self) -> bool:
        """Moves the rows of all replicas; whether none is left."""
        done = [await self._migrate(replica) for _, replica in sorted(self._pod.replicas.items())]
        return all(done)

    async def _migrate(self, replica: Replica) -> bool:
        """Whether all rows of a replica have the store's format."""
        clock, metrics = self._pod.clock, self._pod.metrics
        has_moved = False
        try:
            await replica.migration.compact()
            started = clock.monotonic()
            while step := await replica.format_change.move_rows(self._settings.migration_step_rows):
                has_moved = True
                metrics.migrated_records.inc(step.rows)
                await asyncio.sleep((clock.monotonic() - started) * self._rest)
                started = clock.monotonic()
        except StoreError as error:
            if replica.migration.failure is None:
                _LOG.warning("partition %s: rows wait: %s", replica.partition, error.message)
            replica.migration.failure = error
            await self._pod.news.tell()
            return False
        if has_moved:
            await self._pod.news.tell()
        return replica.view is not None
