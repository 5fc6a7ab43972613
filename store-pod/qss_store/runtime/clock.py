"""Time as an argument: the one place where the pod reads a clock."""

import time
from typing import Protocol


class Clock(Protocol):
    """A clock for people and retention, one for deadlines, and the work that was done."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970; may jump."""

    def monotonic(self) -> float: ...

    def cpu_s(self) -> float:
        """Seconds of CPU that this process has used."""


class SystemClock:
    def wall_ms(self) -> int:
        return int(time.time() * 1000)  # noqa: TID251 this is the clock.

    def monotonic(self) -> float:
        return time.monotonic()

    def cpu_s(self) -> float:
        """Seconds of CPU that this process has used."""
        return time.process_time()
