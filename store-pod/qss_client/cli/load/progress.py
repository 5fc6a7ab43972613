"""Shows the progress of a load on stderr: a bar on a terminal, elsewhere a line now and then."""

import sys
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from qss_client.clock import Clock

_EVERY_S = 2.0


class Progress:
    """The progress of one load, inside the block."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._told_s = clock.monotonic_s()
        self._bar: Bar | None = None
        if sys.stderr.isatty():
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.percentage:>3.0f}%"),
                TimeRemainingColumn(),
            )
            self._bar = Bar(*columns, console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task("", total=1.0)

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def tell(self, what: str, share: float) -> None:
        """Shows a sentence without its end, and the share of the file that was read, 0 to 1."""
        if self._bar is not None:
            self._bar.update(self._task, description=what, completed=share)
            return
        now_s = self._clock.monotonic_s()
        if now_s - self._told_s < _EVERY_S:
            return
        self._told_s = now_s
        sys.stderr.write(f"{what}: {share:.0%} of the file\n")
        sys.stderr.flush()
