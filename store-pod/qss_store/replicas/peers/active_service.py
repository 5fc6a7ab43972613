"""Decides whether a replica may act as its partition's active, and begins its epoch."""

import asyncio

from qss_core.errors import NotReadyError, StoreError
from qss_core.model import Epoch, Offset, Ordinal, Role
from qss_store.replicas.apply.replica_parts import ReplicaParts
from qss_store.replicas.changelog.changelog import Changelog
from qss_store.replicas.peers.follower_progress import FollowerProgress
from qss_store.replicas.peers.follower_service import FollowerService
from qss_store.replication import log as logs

_BEGIN_AGAIN_S = 0.05
_PATIENCE = 3  # Times `replicaTimeout`, for an active that no standby has compared itself with.


class ActiveService:
    """Begins an active's work in an epoch, once every older active has stopped."""

    def __init__(
        self, parts: ReplicaParts, followers: FollowerProgress, following: FollowerService
    ) -> None:
        """An active that starts again waits for a new epoch."""
        self._parts = parts
        self._changelog: Changelog = parts.changelog
        self._followers = followers
        self._following = following
        self._barrier_at: Offset | None = None
        self._has_restarted = not parts.changelog.may_act

    @property
    def asks_for_epoch(self) -> bool:
        """Whether this active started again, and must not act before it gets a new epoch."""
        return self._changelog.log.role is Role.ACTIVE and self._has_restarted

    @property
    def begins_epoch(self) -> bool:
        """Whether this active has not applied its log up to the Barrier of its epoch yet.

        Until then it may lack entries that the active before it has acknowledged. A sole active
        that stays the only one lacks nothing.
        """
        return self._barrier_at is not None and self._changelog.log.applied <= self._barrier_at

    def check(self, epoch: Epoch | None = None) -> None:
        """Refuses a write, or a question for the partition's last word, to this replica.

        Raises NotActiveError, StaleEpochError for another `epoch`, and NotReadyError where the
        active of several replicas has not begun its epoch: it would answer from an older state.
        """
        log = self._changelog.log
        partition = log.configuration.partition
        logs.check_active(log, epoch)
        if self.asks_for_epoch:
            raise NotReadyError(
                f"partition {partition}'s active restarted and waits for an epoch: try again"
            )
        if not self._changelog.may_act:
            raise NotReadyError(
                f"the new active of partition {partition} waits until the active before it has "
                "stopped, or its lease has run out: try again"
            )
        if self.begins_epoch:
            self._followers.check()
            raise NotReadyError(f"partition {partition} applies its changelog: try again")
        if logs.is_sole(log):
            return
        self._followers.check()
        if not self._followers.has_lease():
            raise NotReadyError(
                f"the active of partition {partition} did not hear from its standbys within its "
                "lease: try again"
            )

    @property
    def is_acting(self) -> bool:
        """Whether `check` would let this replica answer now."""
        try:
            self.check()
        except StoreError:
            return False
        return True

    def silent_followers(self, timeout_s: float) -> tuple[Ordinal, ...]:
        """The in-sync followers without which this active would go on.

        While the active does not know whether its own volume went back, one of those followers may
        be the only replica with all acknowledged entries: it gets more time.
        """
        if self._changelog.log.role is not Role.ACTIVE or not self._changelog.may_act:
            return ()
        if self._following.is_compared:
            return self._followers.silent(timeout_s)
        return self._followers.silent(_PATIENCE * timeout_s, with_lost=False)

    def is_held_up(self, timeout_s: float) -> bool:
        """Whether this active waits for a learner that does not catch up."""
        is_active = self._changelog.log.role is Role.ACTIVE
        return is_active and self._followers.learners.is_held_up(timeout_s)

    def configured(self, before: logs.Log) -> None:
        """The log has a newer configuration than `before`."""
        log = self._changelog.log
        self._changelog.may_act = self._has_restarted = False
        was_sole = before.role is Role.ACTIVE and logs.is_sole(before)
        stays_sole = was_sole and logs.is_sole(log) and self._barrier_at is None
        is_led = log.role is Role.ACTIVE and not stays_sole
        self._barrier_at = log.end if is_led else None
        self._following.configured()
        self._begin()
        if is_led:
            self._parts.wake.set()
            self._parts.context.send()  # Once the epoch is durable, followers are greeted.

    def released(self, process: str, epoch: Epoch) -> None:
        """Another pod's process holds this epoch durably, as a follower."""
        self._following.released(process, epoch)
        if self._following.may_begin():
            self._begin()

    def act_alone(self) -> None:
        """Acts in the held epoch, if no other replica is in sync: a person accepted a loss."""
        if logs.is_sole(self._changelog.log):
            self._changelog.may_act, self._has_restarted = True, False
            self._parts.wake.set()

    def _begin(self) -> None:
        """Acts in the epoch, once every older active has stopped."""
        if self._changelog.log.role is not Role.ACTIVE or self._changelog.may_act:
            return
        if self._has_restarted:
            return
        if not self._following.may_begin():
            asyncio.get_running_loop().call_later(_BEGIN_AGAIN_S, self._begin)
            return
        self._changelog.may_act = True
        self._followers.begin()
        if (silent_s := self._following.take_silence_s()) is not None:
            self._parts.context.metrics.replication.took_over(silent_s)
        self._parts.wake.set()  # A Barrier may have to be appended.
        self._parts.context.send()
