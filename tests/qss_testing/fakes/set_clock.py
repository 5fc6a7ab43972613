"""A clock that the test turns."""

from dataclasses import dataclass


@dataclass(slots=True)
class SetClock:
    """The clocks of a pod that does no work; it stands still until `now_s` is changed."""

    now_s: float = 1_000_000.0

    def wall_ms(self) -> int:
        """Milliseconds since 1970."""
        return int(self.now_s * 1000)

    def monotonic(self) -> float:
        """Seconds."""
        return self.now_s

    def cpu_s(self) -> float:
        """Seconds."""
        return 0.0
