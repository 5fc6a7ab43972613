"""Chooses the pause after the end of a pod until its next start, and the ends that are told."""

import math
import re
from dataclasses import dataclass

STABLE_AFTER_S = 10.0
TELL_AGAIN_S = 60.0
_NUMBER = re.compile(r"\d+")
_DELAY_MAX_S = 10.0


def failures_after(failures: int, lived_s: float) -> int:
    """The number of quick ends in a row, after one more end."""
    return 1 if lived_s >= STABLE_AFTER_S else failures + 1


def restart_delay_s(failures: int) -> float:
    """0 s after the first end, then 0.5 s, 1 s, 2 s ... up to 10 s."""
    if failures <= 1:
        return 0.0
    # The exponent is limited, since a pod may fail for weeks.
    return float(min(0.5 * 2 ** min(failures - 2, 16), _DELAY_MAX_S))


@dataclass(slots=True)
class ToldEnds:
    """Chooses the ends of one pod that are told: the first, another reason, then one a minute."""

    _reason: tuple[str, str] = ("", "")
    _again_s: float = -math.inf

    def take(self, ending: str, said: str, failures: int, now_s: float) -> str | None:
        """The words for the end of a pod that `said` this last; None where it is not told."""
        # Each try has another time and another pid in the line.
        reason = (ending, _NUMBER.sub("", said))
        if failures > 1 and reason == self._reason and now_s < self._again_s:
            return None
        self._reason, self._again_s = reason, now_s + TELL_AGAIN_S
        often = f" (tried at least {failures} times)" if failures > 1 else ""
        return f"{ending}{often}, restarting" + (f"; it said last: {said}" if said else "")
