"""The followers of one active in one epoch, and the active's lease in that epoch."""

from qss_client.clock import Clock
from qss_core.model import Epoch, Offset, Ordinal
from qss_store.replicas.changelog.changelog import Changelog
from qss_store.replicas.peers.follower_state import FollowerState
from qss_store.replication import active
from qss_store.replication.lease import Lease

_LEFT_S = 5.0  # So long a replica that has left does not count, unless its pod ends.
_NO_EPOCH = Epoch(0)


class EpochFollowers:
    """The states of an active's followers; nothing is known of them at the start of an epoch."""

    def __init__(self, changelog: Changelog, clock: Clock) -> None:
        self._changelog = changelog
        self._now_s = clock.monotonic_s
        self.peers = active.Peers(epoch=_NO_EPOCH, next={})
        self.lease = Lease(epoch=_NO_EPOCH)
        # The learners that count, durably, with the log's end when they began to.
        self.counted: dict[Ordinal, Offset] = {}
        self._states: dict[Ordinal, FollowerState] = {}
        self._in_sync: set[Ordinal] = set()  # In the last epoch in which this was the active.

    def states(self) -> dict[Ordinal, FollowerState]:
        """The followers in the epoch that the log holds."""
        log = self._changelog.log
        if self.peers.epoch != log.configuration.epoch:
            self.peers = active.peers_of(log)
            now_s = self._now_s()
            self._states = {pod: FollowerState(heard_s=now_s) for pod in self.peers.next}
            for pod in (self._in_sync - set(log.configuration.in_sync)) & self._states.keys():
                self._states[pod].rests_until_s = now_s + _LEFT_S
            self._in_sync = set(log.configuration.in_sync)
            self.lease = Lease(epoch=log.configuration.epoch)
            self.counted = {}
        return self._states

    def send_again(self, pod: Ordinal) -> None:
        """Notes that entries are sent to the pod anew, after the last acknowledged one."""
        log = self._changelog.log
        known = log.durable.get(pod)
        again = active.send_until(log, pod) if known is None else known
        self.peers = active.sent(self.peers, pod, again)
