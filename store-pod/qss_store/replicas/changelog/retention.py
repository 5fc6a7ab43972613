"""Finds the entries of a changelog that are beyond the store's retention, some at a time.

`replication.log` has the pure rule; the changelog deletes the entries.
"""

from itertools import islice

from qss_client.clock import Clock
from qss_core.model import Offset, Ordinal, StoreSettings
from qss_store.replicas.changelog.stored_entries import read_and_noted
from qss_store.replication import log as logs
from qss_store.replication.entries import encode_offset
from qss_store.storage.engine import CHANGELOG, Engine

_CUT_AFTER_BYTES = 16 * 1024 * 1024
_CUT_AT_ONCE_MAX = 500


class ChangelogRetention:
    """The progress of cuts of one changelog, and the learners that keep its entries."""

    def __init__(self, engine: Engine, clock: Clock, start: Offset) -> None:
        """`start` is the log's first entry."""
        self._engine = engine
        self._clock = clock
        # For each learner that copies: from which entry on all are kept, and until when.
        self.pins: dict[Ordinal, tuple[Offset, float]] = {}
        self.is_cut_owed = False
        self._bytes_when_cut = 0
        self._due_below = start  # Entries below are deleted, some at a time.
        # Entries below are skipped: they have times in the future, from a clock that was ahead.
        self._examined = start

    def is_due(self, bytes_total: int) -> bool:
        """Whether a cut was put off, or enough bytes were appended for another cut."""
        return self.is_cut_owed or bytes_total - self._bytes_when_cut > _CUT_AFTER_BYTES

    def put_off(self, bytes_total: int) -> None:
        """Notes that a cut is due as soon as no entry is being applied."""
        self._bytes_when_cut = bytes_total
        self.is_cut_owed = True

    def next_cut(
        self, log: logs.Log, bytes_total: int, settings: StoreSettings, open_floor: Offset | None
    ) -> Offset | None:
        """The offset below which entries are deleted now; None where none are.

        Entries from `open_floor` on stay.
        """
        self._bytes_when_cut = bytes_total
        now_s = self._clock.monotonic_s()
        floors = [first for first, until_s in self.pins.values() if now_s < until_s]
        open_floor = min(floors if open_floor is None else [*floors, open_floor], default=None)
        self.is_cut_owed = False
        if self._due_below <= log.start:
            self.is_cut_owed = self._look(log, bytes_total, settings, open_floor)
        if self._due_below <= log.start:
            return None
        return Offset(min(self._due_below, log.start + _CUT_AT_ONCE_MAX))

    def has_cut(self, point: Offset) -> None:
        """Notes that the entries below `point` are deleted."""
        self.is_cut_owed |= self._due_below > point

    def _look(
        self, log: logs.Log, bytes_total: int, settings: StoreSettings, open_floor: Offset | None
    ) -> bool:
        """Finds the offset below which entries are deleted; returns whether to look further."""
        start = max(self._examined, log.start)
        rows = self._engine.scan(CHANGELOG, lower=encode_offset(start))
        looked_at: list[logs.Stored] = []
        now_ms = self._clock.wall_ms()
        self._due_below = logs.truncation_point(
            log,
            read_and_noted(islice(rows, _CUT_AT_ONCE_MAX), looked_at),
            bytes_total,
            open_floor,
            now_ms,
            logs.Retention(settings.changelog_retention_ms, settings.changelog_retention_bytes),
        )
        is_full = len(looked_at) == _CUT_AT_ONCE_MAX
        if self._due_below > log.start:
            self._examined = self._due_below
            return is_full
        is_undecided = is_full and looked_at[-1].wall_time_ms > now_ms
        self._examined = Offset(looked_at[-1].offset + 1) if is_undecided else log.start
        return is_undecided
