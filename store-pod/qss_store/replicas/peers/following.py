"""A follower's side of one partition: it takes epochs and entries from the partition's active."""

from collections.abc import Callable

from qss_core.errors import CorruptionError, StoreError, WrongStoreError
from qss_core.model import Offset, PartitionConfiguration, Role
from qss_store.replicas.apply.replica_parts import ReplicaParts
from qss_store.replicas.peers.freshness import Freshness
from qss_store.replication import log as logs
from qss_store.replication.follower import Append, StepBack, check_follows, receive
from qss_store.storage.engine import PassingError


class Following:
    """What a replica does at the requests of its active."""

    def __init__(
        self,
        parts: ReplicaParts,
        reconfigure: Callable[[PartitionConfiguration], object],
        fail: Callable[[Exception], None],
    ) -> None:
        """`reconfigure` takes a newer configuration; `fail` gets a lasting failure."""
        self._parts = parts
        self._changelog = parts.changelog
        self._reconfigure = reconfigure
        self._fail = fail
        self._freshness = Freshness()

    def stale_s(self) -> float:
        """Seconds since this replica was level with its active; infinity where it never was."""
        log = self._changelog.log
        if log.role is Role.ACTIVE:
            return 0.0
        return self._now_s() - self._freshness.level_s(log.applied)

    def _now_s(self) -> float:
        return self._parts.context.clock.monotonic()

    def hear(self, configuration: PartitionConfiguration) -> None:
        """Takes a configuration from another pod, where it is newer than the own one."""
        if configuration.epoch > self._changelog.log.configuration.epoch:
            self._reconfigure(configuration)

    async def greet(self, configuration: PartitionConfiguration) -> None:
        """Returns once the active's epoch is durable here.

        Raises StaleEpochError unless this replica follows that active in that epoch.
        """
        self._check_health()
        await self._take_epoch(configuration)
        check_follows(self._changelog.log, configuration)

    async def receive(self, append: Append) -> Offset | StepBack:
        """Takes entries of the partition's active; returns the offset up to which they are durable.

        Raises StaleEpochError, MalformedRequestError for damaged entries, DiskFullError, and
        CorruptionError where this log and the active's differ below the watermark: then the replica
        has failed, and has to be made anew.
        """
        self._check_health()
        heard_s, changelog, parts = self._now_s(), self._changelog, self._parts
        try:
            await self._take_epoch(append.configuration)
            found = receive(changelog.log, changelog.point_at, append)
            if isinstance(found, StepBack):
                return found
            changelog.take(found)
            if found.cut_from is not None:
                parts.recent.cut(found.cut_from)
                parts.pending.cut(found.cut_from, logs.not_active(changelog.log))
            parts.wake.set()
            if changelog.owes_sync:
                await changelog.sync()
        except (CorruptionError, PassingError) as error:
            self._fail(error)
            raise
        check_follows(changelog.log, append.configuration)
        self._check_health()
        self._freshness.heard(heard_s, append.watermark, changelog.log.applied)
        return found.matched

    def _check_health(self) -> None:
        failure: StoreError | None = self._parts.health.failure
        if failure is not None:
            raise failure

    async def _take_epoch(self, configuration: PartitionConfiguration) -> None:
        """Takes a newer configuration; the held one is durable when this returns.

        Nothing is answered in an epoch that a crash would forget.
        """
        held, changelog = self._changelog.log.configuration, self._changelog
        if configuration.partition != held.partition:
            raise WrongStoreError(
                f"this is partition {held.partition}, and the entries are of partition "
                f"{configuration.partition}"
            )
        self.hear(configuration)
        held = changelog.log.configuration
        if changelog.kept_epoch < held.epoch:
            if changelog.written_epoch < held.epoch:
                self._parts.write_configuration(held)
            await changelog.sync()
