"""Takes a replica into newer epochs, and makes the epoch of an active durable."""

import asyncio
from collections.abc import Callable

from qss_core.model import PartitionConfiguration, Role
from qss_store.replicas.apply.replica_parts import ReplicaParts
from qss_store.replicas.peers.active_service import ActiveService
from qss_store.replicas.peers.unlike_alarm import UnlikeAlarm
from qss_store.replication import log as logs


class EpochService:
    """The epochs of one replica."""

    def __init__(
        self,
        parts: ReplicaParts,
        alarm: UnlikeAlarm,
        acting: ActiveService,
        begin: Callable[[], None],
        fail: Callable[[Exception], None],
    ) -> None:
        """`begin` is called once an epoch is durable; `fail` gets the error of a sync."""
        self._parts = parts
        self._alarm = alarm
        self._acting = acting
        self._begin = begin
        self._fail = fail
        self._keeping: asyncio.Task[None] | None = None

    def take(self, configuration: PartitionConfiguration) -> bool:
        """Takes a configuration; returns whether it is a new one.

        Raises StaleEpochError for an older configuration.
        """
        before = self._parts.changelog.log
        log = logs.reconfigure(before, configuration)
        if log is before:
            return False
        self._parts.catch_up.configured(before.configuration, log)
        self._parts.write_configuration(configuration)
        self._parts.changelog.log = log
        self._alarm.configured(configuration)
        self._acting.configured(before)
        return True

    def keep(self) -> None:
        """Begins to make the epoch of an active durable, so that it greets its followers.

        The apply loop would do so after the commit that it applies, which may take long.
        """
        changelog = self._parts.changelog
        is_owed = changelog.log.role is Role.ACTIVE and changelog.owes_epoch
        if not is_owed or self._parts.health.has_failed:
            return
        if self._keeping is None or self._keeping.done():
            name = f"epoch-{changelog.log.configuration.partition}"
            self._keeping = asyncio.create_task(self._keep(), name=name)

    async def close(self) -> None:
        """Ends the sync that `keep` began."""
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)

    async def _keep(self) -> None:
        try:
            await self._parts.changelog.sync()
        except Exception as error:  # noqa: BLE001 the top of a task.
            self._fail(error)
        else:
            self._begin()
            self._parts.context.send()
