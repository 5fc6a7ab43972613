"""Time as an argument: every decision by time, in a pod, an operator or a command, uses this clock.

Only this module reads the time of day. The listeners of a pod measure requests and connections with
the process's monotonic time, and `free_space` limits by it how often the volume is looked at.
"""

import time
from typing import Protocol


class Clock(Protocol):
    """The time of day, a monotonic time for deadlines, and the CPU time of the process."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970; may jump."""

    def monotonic_s(self) -> float:
        """Seconds since some moment, never going back."""

    def cpu_s(self) -> float:
        """Seconds of CPU that this process has used."""


class SystemClock:
    def wall_ms(self) -> int:
        return int(time.time() * 1000)  # noqa: TID251 this is the clock.

    def monotonic_s(self) -> float:
        return time.monotonic()

    def cpu_s(self) -> float:
        return time.process_time()
