"""Execution info: a line with nanoseconds for each layer of an answer, if requested.

The layers are `open` (a state is chosen), `read`, `count` or `scan` with the numbers of rows
scanned and returned, a custom query type by its name, and `peer POD` (the whole request to it).
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from qss_client.clock import Clock

_UNTIMED = nullcontext()  # Shared by concurrent requests, since it has no state.


class ExecutionTrace:
    """The lines of one partition's answer."""

    def __init__(self, clock: Clock, *, wanted: bool) -> None:
        """Measures with `clock`; without `wanted` it collects no lines."""
        self._clock = clock
        self._wanted = wanted
        self._lines: list[str] = []

    def layer(self, name: str) -> AbstractContextManager[None]:
        return self._timed(name) if self._wanted else _UNTIMED

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        started = self._clock.monotonic_s()
        yield
        self.add(name, self._clock.monotonic_s() - started)

    def add(self, name: str, seconds: float, what: str = "") -> None:
        """Adds the line of a layer."""
        if self._wanted:
            self._lines.append(f"{name}: {round(seconds * 1e9)} ns{what}")

    def read(self, seconds: float, scanned: int, returned: int) -> None:
        """Adds the line of look-ups by key."""
        self.add("read", seconds, f", {scanned} rows scanned, {returned} returned")

    def lines(self) -> tuple[str, ...] | None:
        """The lines; None if they were not requested."""
        return tuple(self._lines) if self._wanted else None
