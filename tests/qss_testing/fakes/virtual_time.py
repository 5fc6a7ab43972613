"""Event loops whose time needs no waiting, so hours take milliseconds.

VirtualTimeLoop is for code without I/O: its time advances only while all tasks wait, and sleeps,
timeouts and the loop's clock agree. ForwardLoop is for sockets: a test moves its time forward.
SetClock is for one class or service without a loop of its own.
"""

import asyncio
import selectors
from collections.abc import Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

Result = TypeVar("Result")


class _Selector(selectors.DefaultSelector):
    """Adds the time that it would have waited, and does not wait."""

    now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready:
            assert timeout is not None, "everything waits, and nothing will happen"
            self.now_s += timeout
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """A loop that starts at second 0."""

    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now_s


class ForwardLoop(asyncio.SelectorEventLoop):
    """A loop with sockets, whose time also advances when a test says so."""

    def __init__(self) -> None:
        self._skipped_s = 0.0
        super().__init__()

    def time(self) -> float:
        return super().time() + self._skipped_s

    async def skip(self, seconds: float) -> None:
        """Moves the time forward and lets each task run once that waited for it."""
        self._skipped_s += seconds
        await asyncio.sleep(0)


class LoopClock:
    """The running loop's time; `skew` is the error of its time of day."""

    def __init__(self, *, skew: timedelta = timedelta()) -> None:
        self._skew = skew

    def monotonic_s(self) -> float:
        return asyncio.get_running_loop().time()

    def wall_ms(self) -> int:
        seconds = timedelta(seconds=self.monotonic_s())
        time_of_day = datetime(2026, 11, 21, tzinfo=UTC) + self._skew + seconds
        return int(time_of_day.timestamp() * 1000)

    def cpu_s(self) -> float:
        return self.monotonic_s()


@dataclass(slots=True)
class SetClock:
    """The clock of one class, service or idle pod; its time is `now_s` until a test changes it."""

    now_s: float = 1_000_000.0

    def wall_ms(self) -> int:
        return int(self.now_s * 1000)

    def monotonic_s(self) -> float:
        return self.now_s

    def cpu_s(self) -> float:
        return 0.0


def run_in_virtual_time(work: Coroutine[Any, Any, Result]) -> Result:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(work)
