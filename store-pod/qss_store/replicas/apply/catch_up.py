"""Says whether a standby has applied enough of its log to answer reads.

A learner joins the in-sync set once it holds the log. It applies the log afterwards, which may take
long: until then its rows are a state from long before. A standby that starts again may have left
the in-sync set meanwhile. So a standby answers once it has applied everything that was acknowledged
when its active was first heard since it joined or started.
"""

from collections.abc import Mapping

from qss_core.model import Offset, PartitionConfiguration, Role
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

    def heard(self, append: Append, log: Log, engine: Engine) -> None:
        """Takes the watermark of an active: all that was acknowledged until now is below it.

        An active that may have been deposed tells no moment of this process. Raises DiskFullError.
        """
        moment = append.after
        if moment is None or moment.process != self._process:
            return
        if self._target is None:
            self._target = append.watermark
        if self._is_behind and log.applied >= self._target:
            self._is_behind, batch = False, engine.batch()
            self.put(batch)
            engine.write(batch)

    def lacks_rows(self, log: Log, *, misses_active: bool) -> bool:
        """Whether readers of a standby would see a state from long before.

        Where no active is heard, nobody has a newer state, and one that was level once answers.
        """
        if self._target is not None:
            return log.applied < self._target
        return self._is_behind or not misses_active

    @property
    def is_behind(self) -> bool:
        """Whether the replica has joined, and was not seen to have applied its log since."""
        return self._is_behind
