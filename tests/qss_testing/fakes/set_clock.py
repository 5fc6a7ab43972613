"""A clock that the test sets."""

from dataclasses import dataclass


@dataclass(slots=True)
class SetClock:
    """The clocks of an idle pod; the time is `now_s` until a test changes it."""

    now_s: float = 1_000_000.0

    def wall_ms(self) -> int:
        return int(self.now_s * 1000)

    def monotonic_s(self) -> float:
        return self.now_s

    def cpu_s(self) -> float:
        return 0.0
