"""A follower's side of one partition: it takes epochs and entries from the partition's active."""

from collections.abc import Callable
from itertools import count

from qss_core.errors import CorruptionError, StoreTypeFailedError, WrongStoreError
from qss_core.model import Epoch, Offset, PartitionConfiguration, Role
from qss_store.replicas.apply.replica_parts import ReplicaParts
from qss_store.replicas.peers.freshness import Freshness
from qss_store.replication import log as logs
from qss_store.replication.digest import LogPoint
from qss_store.replication.follower import Append, Moment, StepBack, check_follows, receive
from qss_store.replication.lease import (
    DURATION_S,
    MARGIN,
    Support,
    Term,
    answered,
    is_bound,
    may_begin,
    released,
    started,
)
from qss_store.storage.engine import PassingError

_OPENINGS = count()


class FollowerService:
    """Carries out the requests of a replica's active: new epochs, entries, cuts."""

    def __init__(
        self,
        parts: ReplicaParts,
        reconfigure: Callable[[PartitionConfiguration], object],
        fail: Callable[[Exception], None],
    ) -> None:
        """`reconfigure` takes a newer configuration; `fail` gets a lasting failure.

        A replica that starts does not know what its last process promised, unless it has begun the
        epoch in which it is the active, or its database is new.
        """
        self._parts = parts
        self._changelog = parts.changelog
        self._reconfigure = reconfigure
        self._fail = fail
        self._freshness = Freshness(parts.context.incarnation)
        self.opening = next(_OPENINGS)  # No other replica of this process has this number.
        self.acknowledgements = 0  # Requests of an active whose entries are durable here.
        # Whether another in-sync replica has shown that this one's volume did not go back.
        self.is_compared = not parts.changelog.log.end
        lease_s = parts.context.settings.lease_ms / 1000
        changelog, promises = parts.changelog, parts.context.promises
        partition = changelog.log.configuration.partition
        # A replica that was opened again, or copied, keeps what this process has promised.
        if partition not in promises:
            is_new = changelog.may_act or changelog.has_begun
            now_s = self._now_s()
            promised_s = parts.context.lease.at_start_s(lease_s, now_s)
            promises[partition] = Support({}) if is_new else started(now_s, promised_s)
        self._partition, self._promises = partition, promises
        self._active_silent_after_s = self._now_s() + lease_s * MARGIN
        self._opened_s = self._now_s()
        self._heard_s: float | None = None  # The last entries or heartbeat of an active.

    def stale_s(self) -> float:
        """Seconds since this replica was level with its active; infinity where it never was."""
        log = self._changelog.log
        if log.role is Role.ACTIVE:
            return 0.0
        return self._now_s() - self._freshness.level_s(log.applied)

    def late_s(self) -> float:
        """As `stale_s`; where the replica was never level, the seconds since it was opened."""
        return min(self.stale_s(), self._now_s() - self._opened_s)

    def take_silence_s(self) -> float | None:
        """Seconds since an active was heard; None where none was heard since the last call."""
        heard_s, self._heard_s = self._heard_s, None
        return None if heard_s is None else self._now_s() - heard_s

    def moment(self) -> Moment:
        """The present moment, which the active sends back with entries that are not older."""
        return self._freshness.now(self._now_s())

    def _now_s(self) -> float:
        return self._parts.context.clock.monotonic_s()

    def hear(self, configuration: PartitionConfiguration) -> None:
        """Takes a configuration from another pod, where it is newer than the own one."""
        if configuration.epoch > self._changelog.log.configuration.epoch:
            self._reconfigure(configuration)

    async def greet(self, configuration: PartitionConfiguration) -> LogPoint:
        """Returns the place of the watermark, once the active's epoch is durable here.

        Raises StaleEpochError unless this replica follows that active in that epoch.
        """
        self._check_health()
        await self._take_epoch(configuration)
        check_follows(self._changelog.log, configuration)
        found = self._changelog.point_at(self._changelog.log.watermark)
        assert found is not None, "the log reaches its watermark"
        return found

    async def receive(
        self, append: Append, lease_s: float = DURATION_S, process: str = ""
    ) -> Offset | StepBack:
        """Takes entries of the partition's active; returns the offset up to which they are durable.

        Then it supports that active, and no other one for a tenth longer than `lease_s`. `process`
        is the id of the active's process.

        Raises StaleEpochError, MalformedRequestError for damaged entries, DiskFullError, and
        CorruptionError where this log and the active's differ below the watermark: then the replica
        has failed, and has to be made anew.
        """
        self._check_health()
        self._check_damage(append)
        changelog, parts = self._changelog, self._parts
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
            check_follows(changelog.log, append.configuration)
            parts.catch_up.heard(append, changelog.log, parts.engine)
        except (CorruptionError, PassingError) as error:
            self._fail(error)
            raise
        self._check_health()
        self.acknowledgements += 1
        self._freshness.heard(append, changelog.log.applied)
        self.is_compared = True
        now_s = self._heard_s = self._now_s()
        parts.context.lease.promise(lease_s, now_s)
        before = self._promises[self._partition]
        self._promises[self._partition] = answered(
            before, Term(append.configuration.epoch, process), now_s, lease_s
        )
        self._active_silent_after_s = now_s + lease_s * MARGIN
        return found.matched

    def released(self, process: str, epoch: Epoch) -> None:
        """Another process holds this epoch durably: from now on it acts in no earlier epoch."""
        held = self._promises[self._partition]
        self._promises[self._partition] = released(held, process, epoch)

    def may_begin(self) -> bool:
        """Whether this replica may act as an active: every older active has stopped."""
        return may_begin(self._promises[self._partition], self._now_s())

    def waits_for_lease(self) -> bool:
        """Whether this replica, as the next active, would have to wait for an older one's lease."""
        epoch = self._changelog.log.configuration.epoch
        return is_bound(self._promises[self._partition], epoch, self._now_s())

    def configured(self) -> None:
        """A new configuration: its active has the time of a lease to be heard."""
        lease_s = self._parts.context.settings.lease_ms / 1000
        self._active_silent_after_s = self._now_s() + lease_s * MARGIN

    @property
    def misses_active(self) -> bool:
        """Whether this standby has not heard from its active for longer than a lease."""
        is_standby = self._changelog.log.role is Role.STANDBY
        return is_standby and self._now_s() > self._active_silent_after_s

    def _check_health(self) -> None:
        health = self._parts.health
        if health.failure is None:
            return
        if health.has_stopped and not isinstance(health.failure, StoreTypeFailedError):
            # A copy of the active's database makes it anew, as after damage.
            raise CorruptionError(f"the replica has failed: {health.failure.message}")
        raise health.failure.once_more()

    def _check_damage(self, append: Append) -> None:
        """Refuses entries of an active without damage, so that this learner is made anew from it.

        The learner has said hello to it before: the active need not wait for an older lease.
        """
        damage = self._parts.health.damage
        role = append.configuration.role_of(self._changelog.log.pod)
        if damage is not None and role is Role.LEARNER and not append.is_damaged:
            raise CorruptionError(f"a block of the replica is damaged: {damage.message}")

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
