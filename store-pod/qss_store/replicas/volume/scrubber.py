"""Reads all rows of a pod's databases slowly, and reports the damage that it meets.

Disks change old bytes, and nobody finds out before a reader or a compaction meets them: until then
all replicas of a partition may be damaged, each at another place. RocksDB checks each block that it
reads.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping

from qss_core.errors import CorruptionError, StoreError
from qss_core.model import PartitionId
from qss_store.replicas.replica import Replica
from qss_store.runtime.settings import Settings

_LOG = logging.getLogger(__name__)


class Scrubber:
    """The passes over the replicas of one pod."""

    def __init__(
        self,
        replicas: Mapping[PartitionId, Replica],
        found: Callable[[PartitionId, CorruptionError], StoreError],
        settings: Settings,
    ) -> None:
        """`found` is told of damage, as `Registry.found_damage`."""
        self._replicas = replicas
        self._found = found
        self._settings = settings

    async def run(self) -> None:
        """Makes a pass, rests, and so on; makes none where `scrub_bytes_per_s` is 0."""
        while self._settings.scrub_bytes_per_s:
            await asyncio.sleep(self._settings.scrub_rest_s)
            try:
                await self.round()
            except Exception:  # noqa: BLE001 the top of a task.
                _LOG.exception("reading the databases for damage failed, the next pass tries again")

    async def round(self) -> None:
        """Reads all rows of all replicas that serve."""
        for partition in sorted(self._replicas):
            replica = self._replicas.get(partition)
            if replica is None or replica.view is None or replica.has_failed:
                continue
            known = replica.health.damage
            try:
                is_whole = await self._read(partition, replica)
                if is_whole and replica.health.damage is known:
                    replica.health.forget_damage()
            except CorruptionError as error:
                self._found(partition, error)
            except StoreError as error:
                _LOG.info("partition %s was not read for damage: %s", partition, error.message)

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
