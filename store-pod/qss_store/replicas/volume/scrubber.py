"""Reads all rows of a pod's databases slowly, and reports the damage that it meets.

Disks change old bytes, and nobody finds out before a reader or a compaction meets them: until then
all replicas of a partition may be damaged, each at another place. RocksDB checks each block that it
reads. Each database keeps when its last pass ended, so that a pod that is restarted each day makes
its passes all the same. At the end of a pass the rows of an active are compared with its standbys'
rows.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

from qss_client.clock import Clock
from qss_core.errors import CorruptionError, StoreError
from qss_core.model import PartitionId, Role
from qss_store.replicas.replica import Replica
from qss_store.runtime.settings import Settings

_LOG = logging.getLogger(__name__)
_LOOK_S = 600.0  # The first look comes that long after the start: a pod that recovers is busy.


class Scrubber:
    """The passes over the replicas of one pod."""

    def __init__(
        self,
        replicas: Mapping[PartitionId, Replica],
        found: Callable[[PartitionId, CorruptionError, Replica], StoreError],
        compare: Callable[[Replica], Awaitable[bool]],
        settings: Settings,
        clock: Clock,
    ) -> None:
        """`found` is told of damage, as `Registry.found_damage`.

        `compare` compares the rows of an active with those of its standbys, as `RowComparison`.
        """
        self._replicas = replicas
        self._found = found
        self._compare = compare
        self._settings = settings
        self._clock = clock

    async def run(self) -> None:
        """Looks again and again which replicas are due; never where `scrub_bytes_per_s` is 0."""
        while self._settings.scrub_bytes_per_s:
            await asyncio.sleep(min(_LOOK_S, self._settings.scrub_rest_s))
            try:
                await self.round()
            except Exception:  # noqa: BLE001 the top of a task.
                _LOG.exception("reading the databases for damage failed, the next pass tries again")

    async def round(self) -> None:
        """Reads all rows of the replicas that serve and whose last pass ended long ago."""
        for partition in sorted(self._replicas):
            replica = self._replicas.get(partition)
            if replica is None or replica.view is None or replica.health.has_failed:
                continue
            if self._is_due(replica):
                await self._pass(partition, replica)

    def _is_due(self, replica: Replica) -> bool:
        """Whether the rest is over; a time in the future is of a clock that was wrong."""
        if _has_to_compare(replica):
            return True
        last_ms, rest_ms = replica.health.last_read_ms, self._settings.scrub_rest_s * 1000
        return last_ms is None or not 0 <= self._clock.wall_ms() - last_ms < rest_ms

    async def _pass(self, partition: PartitionId, replica: Replica) -> None:
        health = replica.health
        known, is_compared = health.damage, True
        try:
            if not await self._read(partition, replica):
                return
            if health.damage is known:
                health.forget_damage()
            is_compared = await self._compare(replica)
        except CorruptionError as error:
            self._found(partition, error, replica)
            is_compared = not health.waits_for_comparison
        except StoreError as error:
            _LOG.info("partition %s was not read for damage: %s", partition, error.message)
            return
        if self._replicas.get(partition) is replica:
            health.was_read(self._clock.wall_ms(), is_compared=is_compared)

    async def _read(self, partition: PartitionId, replica: Replica) -> bool:
        """Returns whether the pass came to the end of all rows."""
        engine = replica.engine
        for family in sorted(engine.families()):
            after: bytes | None = None
            while self._replicas.get(partition) is replica and family in engine.families():
                # No iterator stays open while others run: it would keep a closed database's lock.
                after, size = engine.check_rows(family, after)
                if after is None:
                    break
                await asyncio.sleep(size / self._settings.scrub_bytes_per_s)
        return self._replicas.get(partition) is replica


def _has_to_compare(replica: Replica) -> bool:
    """Whether the rows of an active wait for a comparison that can be made now.

    Unlike replicas are compared again in a later epoch, once none of them is away: the comparison
    of a part of them would not end the alarm.
    """
    health, configuration = replica.health, replica.log.configuration
    if replica.role is not Role.ACTIVE or len(configuration.in_sync) == 1:
        return False
    if health.damage is not None:
        return False
    if health.unlike is None:
        return health.waits_for_comparison
    is_whole = {*configuration.replicas} == {*configuration.in_sync}
    return is_whole and health.unlike.epoch != configuration.epoch
