"""Measures how long ago a follower had every entry of its active."""

from dataclasses import dataclass

from qss_core.model import Offset
from qss_store.replication.follower import Append, Moment

_NEVER = float("-inf")
_FIRST = Offset(0)


@dataclass(slots=True)
class Freshness:
    """The last moment at which this replica had everything that was acknowledged until then.

    A message may be late, and may come from an active that was deposed. So only an active that may
    act tells a watermark that counts, and it counts for a moment of this replica's own clock that
    the active had heard of before.
    """

    process: str  # The name of this process: the moments of an earlier one say nothing.
    _sure_s: float = _NEVER
    _watermark: Offset = _FIRST  # Everything acknowledged until then is below it.
    _level_s: float = _NEVER

    def now(self, now_s: float) -> Moment:
        """The moment that goes with an answer to the active."""
        return Moment(self.process, now_s)

    def heard(self, append: Append, applied: Offset) -> None:
        """The active sent its watermark, which this replica may not have applied yet."""
        moment = append.after
        if moment is None or moment.process != self.process or moment.at_s <= self._sure_s:
            return
        self._level_s = self.level_s(applied)
        self._sure_s, self._watermark = moment.at_s, append.watermark

    def level_s(self, applied: Offset) -> float:
        """The time at which this replica was last level, in seconds of the monotonic clock.

        Minus infinity where it was not level since its process started.
        """
        return self._sure_s if applied >= self._watermark else self._level_s
