"""The progress of the other replicas of a partition: requests to send, and answers."""

import logging
from collections.abc import Callable, Collection

from qss_client.clock import Clock
from qss_core.errors import (
    CorruptionError,
    MalformedRequestError,
    NotReadyError,
    StaleEpochError,
    StoreError,
    WrongStoreError,
)
from qss_core.model import Epoch, Offset, Ordinal, Role
from qss_core.text import listed
from qss_core.wire.messages import error_of
from qss_store.replicas.changelog.changelog import Changelog
from qss_store.replicas.peers.epoch_followers import EpochFollowers
from qss_store.replicas.peers.follower_state import FollowerState
from qss_store.replicas.peers.learner_progress import LearnerProgress
from qss_store.replication import active
from qss_store.replication.digest import LogPoint
from qss_store.replication.follower import Append
from qss_store.replication.hello import Hello, check_hello, other_entries
from qss_store.replication.lease import left_s, may_act, supported
from qss_store.replication.messages import Held, Refused, SteppedBack

_LOG = logging.getLogger(__name__)
_HEARTBEAT_S_MAX = 1.0
_HEARTBEATS_A_LEASE = 4
# A watermark that rose goes with the next entries, or alone after this time.
_WATERMARK_S = 0.005
_AGAIN_S, _AGAIN_S_MAX = 0.02, 1.0


class FollowerProgress:
    """The followers of one active; nothing is known of them at the start of an epoch."""

    def __init__(
        self,
        changelog: Changelog,
        hello: Callable[[], Hello],
        clock: Clock,
        acknowledged: Callable[[], None],
        compared: Callable[[], None],
    ) -> None:
        """`hello` is this replica's own; `acknowledged` is called when the watermark may rise.

        `compared` is called when an in-sync follower has shown that this log lacks nothing.
        """
        self._compared = compared
        self._changelog = changelog
        self._hello = hello
        self._now_s = clock.monotonic_s
        self._acknowledged = acknowledged
        self._epoch = EpochFollowers(changelog, clock)
        self.learners = LearnerProgress(changelog, self._epoch, clock)

    def check(self) -> None:
        """Raises NotReadyError until every in-sync follower has taken this epoch.

        So the first entry of a store is appended only after each of its volumes exists.
        """
        followers = self._epoch.states()
        silent = [
            pod
            for pod in self._changelog.log.configuration.in_sync
            if pod in followers and not followers[pod].has_said_hello
        ]
        if silent:
            partition = self._changelog.log.configuration.partition
            raise NotReadyError(
                f"partition {partition} waits for its standby on pod "
                f"{listed([str(pod) for pod in silent])}: try again"
            )

    # --- Requests

    def greets(self, pod: Ordinal) -> bool:
        """Whether this replica is the active, and the pod has a follower that is not lost.

        It greets its followers before it may act: the active before it is among them, and answers
        that it has stopped. An active sends nothing in an epoch before its own disk keeps the
        epoch: after a crash it would send other entries in the same epoch.
        """
        log = self._changelog.log
        if log.role is not Role.ACTIVE or self._changelog.kept_epoch != log.configuration.epoch:
            return False
        follower = self._epoch.states().get(pod)
        return follower is not None and follower.lost is None

    def sends_to(self, pod: Ordinal) -> bool:
        """Whether this active may act, and sends entries to the pod."""
        return self._changelog.may_act and self.greets(pod)

    def owes_hello(self, pod: Ordinal) -> bool:
        """Whether the pod's replica has to say hello before it gets entries."""
        follower = self._epoch.states()[pod]
        return not follower.is_greeted and self._now_s() >= follower.not_before_s

    def is_greeted(self, pod: Ordinal) -> bool:
        """Whether the pod's replica gets entries: it said hello after the last failure."""
        return self._epoch.states()[pod].is_greeted

    def sent_s(self, pod: Ordinal) -> float:
        """The time of the last request to the pod's replica, in seconds of the monotonic clock."""
        return self._epoch.states()[pod].sent_s

    def due_s(self, pod: Ordinal, lease_s: float) -> float:
        """The time by which the next request to the pod needs a part for this partition."""
        follower, log = self._epoch.states()[pod], self._changelog.log
        if not follower.is_greeted:
            return follower.not_before_s
        if self._epoch.peers.next[pod] < active.send_until(log, pod):
            return follower.not_before_s
        heartbeat_s = min(_HEARTBEAT_S_MAX, lease_s / _HEARTBEATS_A_LEASE)
        idle_s = heartbeat_s if follower.watermark >= log.watermark else _WATERMARK_S
        return max(follower.not_before_s, follower.sent_s + idle_s)

    def next(self, pod: Ordinal, bytes_max: int, *, is_acting: bool) -> Append | None:
        """The next entries for the pod's replica, the first one also where it is larger.

        Without new entries it is a heartbeat, with the watermark. None where the log does not reach
        back to the entries that the replica needs. `is_acting` tells whether this active may answer
        for its partition now. Raises CorruptionError where this log is damaged.
        """
        follower, log = self._epoch.states()[pod], self._changelog.log
        first = active.send_from(self._epoch.peers, log, pod)
        previous = None if first is None else self._changelog.point_at(first)
        if first is None or previous is None:
            self._cannot_follow(pod, f"it lacks entries before {log.start}, which were cut")
            return None
        end = active.send_until(log, pod)
        entries = self._changelog.entries_between(first, end, bytes_max)
        self._epoch.peers = active.sent(self._epoch.peers, pod, Offset(first + len(entries)))
        follower.watermark, follower.sent_s = log.watermark, self._now_s()
        follower.was_sent_all = first + len(entries) == end
        return Append(
            configuration=log.configuration,
            previous=previous,
            entries=entries,
            watermark=log.watermark,
            after=follower.answered if is_acting else None,
        )

    # --- Answers

    def greeted(self, pod: Ordinal, epoch: Epoch, hello: Hello, watermark: LogPoint) -> None:
        """Takes the hello of a pod's replica: it has taken this epoch.

        Raises CorruptionError where this active lacks entries that, by an in-sync follower, every
        in-sync replica has held.
        """
        follower = self._epoch.states().get(pod)
        if follower is None or epoch != self._epoch.peers.epoch:
            return
        if self._changelog.log.configuration.role_of(pod) is Role.LEARNER:
            self.learners.forget_other(pod, follower, hello)
        try:
            check_hello(self._hello(), hello, pod, follower.database)
        except StoreError as error:
            self._refuse(pod, follower, error)
            return
        if pod in self._changelog.log.configuration.in_sync:
            self._check_own_log(pod, watermark)
        follower.database, follower.refusals = hello.database, 0
        follower.is_greeted = follower.has_said_hello = True

    def _check_own_log(self, pod: Ordinal, watermark: LogPoint) -> None:
        log = self._changelog.log
        held = self._changelog.point_at(watermark.offset)
        if watermark.offset > log.end or (held is not None and held != watermark):
            raise other_entries(log, pod, watermark)
        self._compared()

    def held(self, pod: Ordinal, result: Held, sent_s: float, lease_s: float) -> None:
        """A pod's replica acknowledged the entries sent at `sent_s`, and supports its active."""
        follower, log = self._epoch.states().get(pod), self._changelog.log
        if follower is None or result.epoch != self._epoch.peers.epoch:
            return
        if result.matched > log.end:
            error = f"pod {pod} acknowledged entry {result.matched - 1}, which does not exist"
            self._refuse(pod, follower, MalformedRequestError(error))
            return
        follower.refusals = 0
        follower.heard_s, follower.answered = self._now_s(), result.answered
        follower.leaves = result.leaves
        self._epoch.lease = supported(self._epoch.lease, pod, result.epoch, sent_s, lease_s)
        watermark = log.watermark
        self._epoch.peers, self._changelog.log = active.acknowledged(
            self._epoch.peers, log, pod, result.epoch, result.matched
        )
        if self._changelog.log.watermark > watermark:
            self._acknowledged()

    def has_lease(self) -> bool:
        """Whether all in-sync followers support this active; without any it needs no lease."""
        return may_act(self._epoch.lease, self._supporters(), self._now_s())

    def lease_left_s(self) -> float:
        """The seconds that are left of the lease; infinity where the active needs none."""
        return left_s(self._epoch.lease, self._supporters(), self._now_s())

    def _supporters(self) -> Collection[Ordinal]:
        """The standbys, and the learners that count: they may be standbys of the next epoch."""
        followers, log = self._epoch.states(), self._changelog.log
        return log.counted.union(log.configuration.in_sync) & followers.keys()

    def begin(self) -> None:
        """The active may act from now on: its followers have had no time to answer before."""
        for follower in self._epoch.states().values():
            follower.heard_s = self._now_s()

    def silent(self, timeout_s: float, *, with_lost: bool = True) -> tuple[Ordinal, ...]:
        """The in-sync followers that are lost, or have taken nothing for that long."""
        followers, now_s = self._epoch.states(), self._now_s()
        return tuple(
            pod
            for pod in self._changelog.log.configuration.in_sync
            if (one := followers.get(pod)) is not None
            and ((with_lost and one.lost is not None) or now_s - one.heard_s > timeout_s)
        )

    def stepped_back(self, pod: Ordinal, result: SteppedBack) -> None:
        """A pod's replica asks for earlier entries; it is lost where it acknowledged them."""
        if self._epoch.states().get(pod) is None or result.epoch != self._epoch.peers.epoch:
            return
        log = self._changelog.log
        if active.lacks_acknowledged(log, pod, result.epoch, result.back):
            self._cannot_follow(
                pod, f"it ends at entry {result.back.end}, and had acknowledged later ones"
            )
            return
        self._epoch.peers = active.step_back(self._epoch.peers, log, pod, result.epoch, result.back)

    def refused(self, pod: Ordinal, epoch: Epoch, result: Refused) -> None:
        """A pod's replica took nothing. The caller takes a newer configuration first."""
        follower = self._epoch.states().get(pod)
        if follower is not None and epoch == self._epoch.peers.epoch:
            self._refuse(pod, follower, error_of(result.problem))

    def failed(self, pod: Ordinal) -> None:
        """A request to the pod has failed: nobody knows which entries arrived."""
        follower = self._epoch.states().get(pod)
        if follower is not None:
            follower.is_greeted, follower.rests_until_s = False, float("-inf")
            self._epoch.send_again(pod)

    def _refuse(self, pod: Ordinal, follower: FollowerState, error: StoreError) -> None:
        self._epoch.send_again(pod)
        pause_s = min(_AGAIN_S_MAX, _AGAIN_S * 2 ** min(follower.refusals, 10))
        follower.refusals += 1
        follower.not_before_s = self._now_s() + pause_s
        if isinstance(error, CorruptionError):
            self._cannot_follow(pod, error.message)
            return
        if isinstance(error, WrongStoreError):
            self._lose(pod, error.message)
            return
        follower.is_greeted = False
        if not isinstance(error, StaleEpochError):
            _LOG.info(
                "partition %s: pod %s does not take entries now: %s",
                self._changelog.log.configuration.partition,
                pod,
                error.message,
            )

    def _cannot_follow(self, pod: Ordinal, why: str) -> None:
        """Has a learner copy the database; an in-sync follower has to become a learner first."""
        log = self._changelog.log
        if log.configuration.role_of(pod) is Role.LEARNER:
            self.learners.need_copy(pod)
        else:
            self._lose(pod, why)

    def _lose(self, pod: Ordinal, why: str) -> None:
        follower = self._epoch.states()[pod]
        if follower.lost is None:
            _LOG.error(
                "partition %s: the replica on pod %s has to be made anew: %s",
                self._changelog.log.configuration.partition,
                pod,
                why,
            )
        follower.lost = why

    @property
    def lost(self) -> dict[Ordinal, str]:
        """The followers that have to be made anew, with the reasons."""
        followers = self._epoch.states()
        return {pod: one.lost for pod, one in followers.items() if one.lost is not None}
