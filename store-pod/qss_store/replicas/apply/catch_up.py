"""Says whether a replica has applied enough of its log to answer reads.

A learner joins the in-sync set once it holds the log. It applies the log afterwards, which may take
long: until then its rows are a state from long before. A standby that starts again may have left
the in-sync set meanwhile. So a standby answers once it has applied everything that was acknowledged
when its active was first heard since it joined or started. One that becomes the active before that
answers once it has applied its log.
"""

from collections.abc import Mapping
from contextlib import suppress

from qss_core.errors import DiskFullError
from qss_core.model import Epoch, Offset, PartitionConfiguration, Role
from qss_store.replication.follower import Append
from qss_store.replication.log import FIRST_EPOCH, Log
from qss_store.storage.engine import META, Batch, Engine

_BEHIND = b"behind-since-it-joined"


class CatchUp:
    """How far one replica has to apply its log before it answers reads."""

    def __init__(
        self,
        meta: Mapping[bytes, bytes],
        log: Log,
        held: PartitionConfiguration | None,
        process: str,
    ) -> None:
        """`held` is the configuration in the database; None for a new database."""
        self._process = process
        self._target: Offset | None = None  # None until an active is heard that may act.
        self._is_behind = _BEHIND in meta
        self._is_confirmed = False
        if held is not None:
            self.configured(held, log)
        elif log.configuration.epoch == FIRST_EPOCH:
            self._target = Offset(0)
        elif log.role is Role.STANDBY:
            self._is_behind = True  # The replica has been here before, on another volume.

    def configured(self, before: PartitionConfiguration, log: Log) -> None:
        """The log has a newer configuration than `before`. Call this before it is written."""
        if log.pod in log.configuration.in_sync and log.pod not in before.in_sync:
            self._target, self._is_behind = None, True

    def put(self, batch: Batch) -> None:
        """Adds to a batch whether the replica is behind, which a start has to know."""
        if self._is_behind:
            batch.put(META, _BEHIND, b"")
        else:
            batch.delete(META, _BEHIND)

    def heard(self, append: Append) -> None:
        """Takes the watermark of an active: all that was acknowledged until now is below it.

        An active that may have been deposed tells no moment of this process.
        """
        moment = append.after
        if self._target is None and moment is not None and moment.process == self._process:
            self._target = append.watermark

    def confirmed(self) -> None:
        """The operator told this process that the replica is in sync, or what it is now."""
        self._is_confirmed = True

    def applied(self, log: Log, epoch: Epoch | None, engine: Engine) -> None:
        """Keeps in the database that the replica is not behind any more, as soon as that is sure.

        `epoch` is that of the last applied entry. An active that has applied an entry of its own
        epoch has applied all that is older. A full disk only delays that.
        """
        if not self._is_behind:
            return
        leads = log.role is Role.ACTIVE and epoch == log.configuration.epoch
        if leads or (self._target is not None and log.applied >= self._target):
            batch = engine.batch()
            batch.delete(META, _BEHIND)
            with suppress(DiskFullError):
                engine.write(batch)
                self._is_behind = False

    def lacks_rows(self, log: Log, *, misses_active: bool) -> bool:
        """Whether readers would see a state from long before.

        A standby that hears no active answers if it was level once, and the operator has told this
        process that it is in sync: it may have left the in-sync set while its pod was away.
        """
        if log.role is Role.LEARNER:
            return False
        if self._target is not None and (self._is_behind or log.role is Role.STANDBY):
            return log.applied < self._target
        if log.role is Role.STANDBY:
            return self._is_behind or not (misses_active and self._is_confirmed)
        return self._is_behind
