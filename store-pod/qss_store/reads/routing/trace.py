"""Execution info: one line for each layer of an answer, with nanoseconds, when it was asked for.

Layers: `open` (a state is chosen), `read`, `count` or `scan` with how many rows were looked at and
given, a query type of a user's own by its name, `peer POD` (the whole way there and back).
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from qss_store.runtime.clock import Clock

_UNTIMED = nullcontext()  # Of many requests at once: it remembers nothing.


class ExecutionTrace:
    """The lines of one partition's answer."""

    def __init__(self, clock: Clock, *, wanted: bool) -> None:
        """Measures with `clock`, if lines are wanted at all."""
        self._clock = clock
        self._wanted = wanted
        self._lines: list[str] = []

    def layer(self, name: str) -> AbstractContextManager[None]:
        """Times what is done inside."""
        return self._timed(name) if self._wanted else _UNTIMED

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        started = self._clock.monotonic()
        yield
        self.add(name, self._clock.monotonic() - started)

    def add(self, name: str, seconds: float, what: str = "") -> None:
        """Says how long a layer took."""
        if self._wanted:
            self._lines.append(f"{name}: {round(seconds * 1e9)} ns{what}")

    def read(self, seconds: float, scanned: int, returned: int) -> None:
        """Says how long it took to look rows up by their keys."""
        self.add("read", seconds, f", {scanned} rows scanned, {returned} returned")

    def lines(self) -> tuple[str, ...] | None:
        """What to answer; None when nobody asked."""
        return tuple(self._lines) if self._wanted else None
