"""The progress of learners, as their active knows it: from a copy to the in-sync set."""

from qss_client.clock import Clock
from qss_core.model import Ordinal, Role
from qss_store.replicas.changelog.changelog import Changelog
from qss_store.replicas.peers.epoch_followers import EpochFollowers
from qss_store.replicas.peers.follower_state import FollowerState
from qss_store.replication import active
from qss_store.replication.hello import Hello

_COPY_AGAIN_S = 1.0
_GONE_S = 1.5  # So long a learner that counts is waited for while requests to its pod fail.


class LearnerProgress:
    """The learners of one active in one epoch."""

    def __init__(self, changelog: Changelog, epoch: EpochFollowers, clock: Clock) -> None:
        self._changelog = changelog
        self._epoch = epoch
        self._now_s = clock.monotonic_s

    def need_copy(self, pod: Ordinal) -> None:
        """Notes that the pod's learner has to copy the database; until then it does not count."""
        self._epoch.states()[pod].needs_copy = True
        self._epoch.counted.pop(pod, None)
        self._changelog.log = active.forget(self._changelog.log, pod)

    def takes_copy(self, pod: Ordinal) -> bool:
        """Whether the pod's learner has to be told now that it has to copy the database.

        A learner that met damage gets entries until then. After it, the learner says hello anew.
        """
        follower, now_s = self._epoch.states()[pod], self._now_s()
        if not follower.needs_copy or now_s < follower.copy_again_s:
            return False
        follower.sent_s, follower.is_greeted, follower.needs_copy = now_s, False, False
        follower.copy_again_s = follower.not_before_s = now_s + _COPY_AGAIN_S
        self._epoch.peers = active.sent(self._epoch.peers, pod, self._changelog.log.end)
        return True

    def installed(self, pod: Ordinal) -> None:
        """The pod's learner follows from a copy: hello and the first request are due now."""
        follower = self._epoch.states().get(pod)
        if follower is not None:
            follower.is_greeted, follower.not_before_s = False, self._now_s()
            follower.sent_s, follower.needs_copy = float("-inf"), False

    def is_held_up(self, timeout_s: float) -> bool:
        """Whether a learner counts that does not catch up: a new epoch ends the wait for it."""
        followers, now_s = self._epoch.states(), self._now_s()
        return any(
            one.needs_copy
            or one.lost is not None
            or now_s - one.heard_s > (timeout_s if one.is_greeted else min(timeout_s, _GONE_S))
            for pod in self._changelog.log.counted
            if (one := followers.get(pod)) is not None
        )

    def is_near(self, pod: Ordinal) -> bool:
        """Whether the pod's learner may count from now on: it took all that it was sent."""
        follower, log = self._epoch.states().get(pod), self._changelog.log
        if follower is None or not follower.was_sent_all or pod in self._epoch.counted:
            return False
        if follower.leaves or not follower.is_greeted:
            return False
        held = log.durable.get(pod)  # None before it acknowledged anything in this epoch.
        if log.configuration.role_of(pod) is not Role.LEARNER or held is None:
            return False
        return held >= self._epoch.peers.next[pod] and self._now_s() >= follower.rests_until_s

    async def count(self, learner: Ordinal) -> None:
        """Has the watermark wait for a learner, too; then it may be asked for."""
        epoch = self._changelog.log.configuration.epoch
        await self._changelog.count(learner)
        if self._changelog.log.configuration.epoch == epoch:
            self._epoch.counted[learner] = self._changelog.log.end
            self._changelog.retention.pins.pop(learner, None)

    def caught_up(self) -> tuple[Ordinal, ...]:
        """The learners that the operator may take into the in-sync set of this epoch.

        Not one whose pod failed since it said hello: it may come back with another volume.
        """
        followers, log = self._epoch.states(), self._changelog.log
        return tuple(
            pod
            for pod, counted_at in sorted(self._epoch.counted.items())
            if followers[pod].is_greeted
            and followers[pod].lost is None
            and not followers[pod].needs_copy
            and active.is_caught_up(log, pod, counted_at)
        )

    def forget_other(self, pod: Ordinal, follower: FollowerState, hello: Hello) -> None:
        """Forgets a learner's acknowledgements from a database that a copy has replaced."""
        if follower.database in (None, hello.database):
            return
        follower.database, follower.needs_copy = None, False
        self._epoch.counted.pop(pod, None)
        self._changelog.log = active.forget(self._changelog.log, pod)
        self._epoch.send_again(pod)
