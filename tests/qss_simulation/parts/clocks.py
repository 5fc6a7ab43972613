"""The clocks of a machine: quicker or slower than others, and a time of day that may jump."""

from datetime import UTC, datetime, timedelta

from qss_simulation.parts.seeded_loop import SeededLoop

_BEGIN = datetime(2026, 11, 23, tzinfo=UTC)


class MachineClock:
    """The clock of a machine, for its pod and for an operator on it."""

    def __init__(self, loop: SeededLoop) -> None:
        """`jumped_s` is how wrong the time of day is."""
        self._loop = loop
        self.jumped_s = 0.0

    def monotonic_s(self) -> float:
        """Seconds of the running node's clock."""
        return self._loop.time()

    def cpu_s(self) -> float:
        """As if the process always worked."""
        return self._loop.time()

    def wall_ms(self) -> int:
        """The time of day with its jumps, in milliseconds since 1970."""
        time_of_day = _BEGIN + timedelta(seconds=self._loop.now_s + self.jumped_s)
        return int(time_of_day.timestamp() * 1000)
