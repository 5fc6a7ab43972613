"""How long ago a follower was level with its active."""

from dataclasses import dataclass

from qss_core.model import Offset

_NEVER = float("-inf")
_FIRST = Offset(0)


@dataclass(slots=True)
class Freshness:
    """The last time at which the active was heard with everything under the watermark applied."""

    _heard_s: float = _NEVER
    _watermark: Offset = _FIRST  # That the active named then.
    _level_s: float = _NEVER

    def heard(self, now_s: float, watermark: Offset, applied: Offset) -> None:
        """The active sent its watermark, which this replica may not have applied yet."""
        self._level_s = self.level_s(applied)
        self._heard_s, self._watermark = now_s, watermark

    def level_s(self, applied: Offset) -> float:
        """The time at which this replica was last level, in seconds of the monotonic clock.

        Minus infinity where it was not level since its process started.
        """
        return self._heard_s if applied >= self._watermark else self._level_s
