"""Decides when a failed action is repeated: after a growing pause, or at once with other input."""

from collections.abc import Collection, Hashable
from dataclasses import dataclass
from typing import Any

from qss_core.errors import Retry, StoreError

_PAUSE_S = 1.0
_PAUSE_S_MAX = 60.0
# A failure that may pass by itself is reported after so many tries.
_TOLD_AFTER = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The last of several failures in a row, with its input and the time of the next try."""

    tried: Any
    error: StoreError
    times: int
    again_at_s: float

    @property
    def is_told(self) -> bool:
        """Whether a status should report the failure."""
        return self.error.retry is not Retry.LATER or self.times >= _TOLD_AFTER


class Backoff:
    """The failures by their subject, each until the subject's next success."""

    def __init__(self) -> None:
        self._failures: dict[Hashable, Failure] = {}

    def of(self, subject: Hashable) -> Failure | None:
        """The subject's last failure; None after a success."""
        return self._failures.get(subject)

    def is_due(self, subject: Hashable, tried: Any, now_s: float) -> bool:
        failure = self.of(subject)
        return failure is None or failure.tried != tried or now_s >= failure.again_at_s

    def failed(self, subject: Hashable, tried: Any, error: StoreError, now_s: float) -> bool:
        """Remembers a failure; returns whether its message differs from the last one."""
        before = self.of(subject)
        is_news = before is None or before.error.message != error.message
        times = 1 if before is None or before.tried != tried else before.times + 1
        pause_s = min(_PAUSE_S_MAX, _PAUSE_S * 2.0 ** min(times - 1, 10))
        self._failures[subject] = Failure(
            tried=tried, error=error, times=times, again_at_s=now_s + pause_s
        )
        return is_news

    def forget(self, subject: Hashable) -> None:
        self._failures.pop(subject, None)

    def keep_only(self, subjects: Collection[Hashable]) -> None:
        """Forgets the failures of all other subjects."""
        self._failures = {key: value for key, value in self._failures.items() if key in subjects}
