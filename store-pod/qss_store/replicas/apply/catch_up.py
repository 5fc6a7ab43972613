"""Says whether a replica has applied enough of its log to answer reads.

A learner joins the in-sync set once it holds the log. It applies the log afterwards, which may take
long: until then its rows are a state from long before. A standby that starts again may have left
the in-sync set meanwhile. So a standby answers once it is level with its active, or a moment
behind, since it joined or started; a message tells that as in `peers.freshness`. A standby that
becomes the active before that answers once it has applied its log.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from qss_client.clock import Clock
from qss_core.errors import DiskFullError
from qss_core.model import Epoch, Offset, PartitionConfiguration, Role
from qss_store.replication.follower import Append
from qss_store.replication.log import FIRST_EPOCH, Log
from qss_store.storage.engine import META, Batch, Engine

_BEHIND = b"behind-since-it-joined"
_MOMENT_S = 2.0  # A standby may be so long behind, as with two heartbeats.
_TARGETS_MAX = 8


class _Target(NamedTuple):
    """A watermark, the monotonic time when it was heard, and the number of watermarks until it."""

    offset: Offset
    at_s: float
    number: int


class CatchUp:
    """How far one replica has to apply its log before it answers reads."""

    def __init__(
        self,
        meta: Mapping[bytes, bytes],
        log: Log,
        held: PartitionConfiguration | None,
        process: str,
        clock: Clock,
    ) -> None:
        """`held` is the configuration in the database; None for a new database."""
        self._process = process
        self._now_s = clock.monotonic_s
        self._newest: Offset | None = None  # The last watermark of an active that may act.
        self._target: _Target | None = None
        self._is_level = False  # Since the replica joined, or its process started.
        self._is_behind = _BEHIND in meta
        self._is_confirmed = False
        if held is not None:
            self.configured(held, log)
        elif log.configuration.epoch == FIRST_EPOCH:
            self._is_level = True
        elif log.role is Role.STANDBY:
            self._is_behind = True  # The replica has been here before, on another volume.

    def configured(self, before: PartitionConfiguration, log: Log) -> None:
        """The log has a newer configuration than `before`. Call this before it is written."""
        if log.pod in log.configuration.in_sync and log.pod not in before.in_sync:
            self._newest = self._target = None
            self._is_level, self._is_behind = False, True

    def put(self, batch: Batch) -> None:
        """Adds to a batch whether the replica is behind, which a start has to know."""
        if self._is_behind:
            batch.put(META, _BEHIND, b"")
        else:
            batch.delete(META, _BEHIND)

    def confirmed(self) -> None:
        """The operator told this process that the replica is in sync, or its present state."""
        self._is_confirmed = True

    def heard(self, append: Append, log: Log, engine: Engine) -> None:
        """Takes the watermark of an active: all entries acknowledged until now are below it.

        An active that may have been deposed tells no moment of this process.
        """
        moment = append.after
        if moment is None or moment.process != self._process:
            return
        self._newest = append.watermark
        if self._target is None:
            self._target = _Target(append.watermark, self._now_s(), 1)
        self.applied(log, None, engine)

    def applied(self, log: Log, epoch: Epoch | None, engine: Engine) -> None:
        """Notes applied entries; `epoch` is the last entry's.

        An active that has applied an entry of its own epoch has applied all older entries.
        """
        if self._is_level and not self._is_behind:
            return
        leads = log.role is Role.ACTIVE and epoch == log.configuration.epoch
        self._is_level = self._is_level or leads or self._is_reached(log.applied)
        if self._is_level and self._is_behind:
            batch = engine.batch()
            batch.delete(META, _BEHIND)
            with suppress(DiskFullError):  # The next call tries again.
                engine.write(batch)
                self._is_behind = False

    def _is_reached(self, applied: Offset) -> bool:
        """Whether the replica is level, or a moment behind.

        Where it took long to apply a target, it has a newer one: under writes without end each
        takes less time than the one before. After some of them it is as level as it will be.
        """
        target, newest = self._target, self._newest
        if target is None or newest is None or applied < target.offset:
            return False
        now_s = self._now_s()
        if applied >= newest or now_s - target.at_s <= _MOMENT_S or target.number == _TARGETS_MAX:
            return True
        self._target = _Target(newest, now_s, target.number + 1)
        return False

    def lacks_rows(self, log: Log, *, misses_active: bool) -> bool:
        """Whether readers would see a state from long before.

        A standby that hears no active answers if it was level once, and the operator has told this
        process that it is in sync: it may have left the in-sync set while its pod was away.
        """
        if self._is_level or log.role is Role.LEARNER:
            return False
        if log.role is Role.STANDBY and not (misses_active and self._is_confirmed):
            return True
        return self._is_behind
