"""Decides whether a failed request is sent again, and after which pause."""

from dataclasses import dataclass

from qss_core.errors import StoreError
from qss_operator.kubernetes.api.errors import ApiUnavailableError, ThrottledError
from qss_operator.kubernetes.api.requests import ApiRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryLimits:
    """The limits of one call: the time of a try, the time and number of all tries, the pauses."""

    try_s: float = 10.0
    total_s: float = 30.0
    tries_max: int = 8
    pause_s: float = 0.2
    pause_s_max: float = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A failed try: its error, the number of tries so far, and the time left for the call."""

    error: StoreError
    tries: int
    left_s: float


def pause_before_retry(
    failure: Failure, request: ApiRequest, patience: RetryLimits, chance: float
) -> float | None:
    """The pause before the next try, None for no further try; `chance` is from 0 to 1."""
    if failure.tries >= patience.tries_max or not _may_repeat(failure.error, request):
        return None
    highest_s = min(patience.pause_s_max, patience.pause_s * 2 ** (failure.tries - 1))
    # Full jitter: operators that failed at the same time must not retry at the same time.
    pause_s = chance * highest_s + _asked_s(failure.error)
    return pause_s if pause_s < failure.left_s else None


def _may_repeat(error: StoreError, request: ApiRequest) -> bool:
    match error:
        case ThrottledError():
            return True
        case ApiUnavailableError():
            return error.is_untouched or request.is_repeatable
        case _:
            return False


def _asked_s(error: StoreError) -> float:
    """The least pause that the server asked for."""
    return float(error.details.get("retry_after_ms", 0)) / 1000
