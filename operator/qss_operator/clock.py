"""The system's clocks (the port Clock), and the times of day as Kubernetes writes them."""

import time
from datetime import UTC, datetime
from typing import Protocol

_SECONDS = "%Y-%m-%dT%H:%M:%SZ"
# Always six digits: an API server refuses a MicroTime without them, and isoformat leaves them out
# in the one moment of a million that has none.
_MICROSECONDS = "%Y-%m-%dT%H:%M:%S.%fZ"


class Clock(Protocol):
    """Time: of day for people, monotonic for intervals."""

    def utc(self) -> datetime:
        """The time of day in UTC."""
        ...

    def monotonic_s(self) -> float:
        """Seconds since some moment, never going back."""
        ...


class SystemClock:
    def utc(self) -> datetime:
        """The time of day in UTC."""
        return datetime.fromtimestamp(time.time(), UTC)  # noqa: TID251

    def monotonic_s(self) -> float:
        """Seconds since some moment, never going back."""
        return time.monotonic()


def time_of(moment: datetime) -> str:
    """RFC 3339 with seconds (Kubernetes' Time)."""
    return _in_utc(moment).strftime(_SECONDS)


def micro_time_of(moment: datetime) -> str:
    """RFC 3339 with microseconds (Kubernetes' MicroTime)."""
    return _in_utc(moment).strftime(_MICROSECONDS)


def _in_utc(moment: datetime) -> datetime:
    assert moment.tzinfo is not None, "a time of day without its zone"
    return moment.astimezone(UTC)
