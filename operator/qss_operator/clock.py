"""The system's clocks (the port Clock)."""

import time
from datetime import UTC, datetime

_FORMAT = "%Y-%m-%dT%H:%M:%SZ"


class SystemClock:
    """Time of this machine."""

    def now(self) -> str:
        """The time of day in UTC, RFC 3339 with seconds."""
        return datetime.fromtimestamp(time.time(), UTC).strftime(_FORMAT)  # noqa: TID251

    def monotonic_s(self) -> float:
        """Seconds since some moment, never going back."""
        return time.monotonic()
