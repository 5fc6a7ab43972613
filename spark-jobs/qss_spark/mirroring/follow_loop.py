"""Follows a query with its copies until Ctrl-C, and tells a person of each batch."""

import math
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Self

from qss_client.clock import Clock, SystemClock
from qss_spark.mirroring.copies.state_copies import StateCopies
from qss_spark.mirroring.copies.state_copy import Written
from qss_spark.mirroring.metrics import MirrorMetrics
from qss_spark.state.checkpoint import Checkpoint
from qss_spark.state.errors import CheckpointError

_POLL_S = 0.01
_RENEW_S = 5.0  # So soon a copy notices that another one has ended it.
_TICK_S, _SILENT_S = 0.4, 1.5  # No wait is silent for two seconds.
_BAR = 30
_CLEAR = "\r\x1b[K"


Wait = Callable[[float], bool]


def _sleep(seconds: float) -> bool:
    """Waits, and goes on: Spark tells nobody that it has committed a batch."""
    time.sleep(seconds)  # noqa: TID251 the files of a checkpoint are looked at.
    return False


class Teller:
    """Tells of batches: in one line that changes on a terminal, else in a line for each batch.

    Inside of its block a thread tells of work that takes long, so that no wait is silent.
    """

    def __init__(
        self,
        stream: IO[str] | None = None,
        *,
        is_live: bool | None = None,
        clock: Clock = SystemClock(),  # noqa: B008 it has no state.
    ) -> None:
        """Takes the stream for batches, by default the standard output; work is told on stderr.

        is_live: whether the stream is a terminal that has one line; by default it is asked.
        """
        self._stream = stream or sys.stdout
        self._is_live = self._stream.isatty() if is_live is None else is_live
        self._clock = clock
        self._work: str | None = None
        self._began_s = self._told_s = 0.0
        self._telling, self._ended = threading.RLock(), threading.Event()
        self._thread = threading.Thread(target=self._tick_on, name="qss-mirror-told", daemon=True)

    def __enter__(self) -> Self:
        """Begins the thread, which ends with the block."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def wrote(self, text: str) -> None:
        """Prints that a store has a batch."""
        with self._telling:
            self._work = None
            self._write(f"{_CLEAR}{text}" if self._is_live else f"{text}\n")

    def begins(self, work: str) -> None:
        """Notes work that begins and may take long; it is printed if it takes long."""
        now_s = self._clock.monotonic_s()
        if self._work is None:
            self._told_s = now_s
        self._work, self._began_s = work, now_s

    def rests(self) -> None:
        """Notes that no work is under way: the query has not committed another batch."""
        self._work = None

    def staged(self, store: str, rows: int, of: int) -> None:
        """So many rows of a large batch are in the store, and not visible yet."""
        self.begins(f"{store}: {rows} of {of} rows are staged")
        if self._is_live and of:
            filled = _BAR * min(rows, of) // of
            bar = f"{'#' * filled}{'.' * (_BAR - filled)}"
            with self._telling:
                self._told_s = self._clock.monotonic_s()
                self._write(f"{_CLEAR}{store} [{bar}] {rows} of {of} rows")

    def tick(self) -> None:
        """Prints the present work if the last line about it is too old."""
        with self._telling:
            work, now_s = self._work, self._clock.monotonic_s()
            if work is None or now_s - self._told_s < _SILENT_S:
                return
            self._told_s = now_s
            self.tell_work(f"{work}, {now_s - self._began_s:.0f} s")

    def tell_work(self, text: str) -> None:
        """Prints that the work goes on, and its duration."""
        if self._is_live:
            self._write(f"{_CLEAR}{text}")
        else:
            print(text, file=sys.stderr, flush=True)  # noqa: T201 it is for a person.

    def end(self) -> None:
        """Ends the line, so that a prompt does not follow it."""
        if self._is_live:
            self._write("\n")

    def _tick_on(self) -> None:
        with suppress(OSError):  # Nobody reads any more.
            while not self._ended.wait(_TICK_S):
                self.tick()

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


@contextmanager
def telling(work: str) -> Iterator[Teller]:
    """Tells on stderr, line by line, that one piece of work goes on."""
    with Teller(is_live=False) as teller:
        teller.begins(work)
        yield teller


def follow(
    copies: StateCopies,
    checkpoint: Checkpoint,
    teller: Teller,
    metrics: MirrorMetrics,
    *,
    once: bool,
    wait: Wait = _sleep,
    clock: Clock = SystemClock(),  # noqa: B008 it has no state.
) -> None:
    """Copies each committed batch.

    once: returns when all stores have the batch that is the newest one now; otherwise a copy that
    another one has ended is noticed within seconds, without a new batch (StaleWriterError).
    wait: waits for some seconds, and returns whether to end; it is asked behind each batch, too.
    Raises as `StateCopies.step`.
    """
    heard_s = clock.monotonic_s()
    newest = checkpoint.newest() if once else None
    while True:
        found = False
        for store, written in copies.step(lists=once):
            found = True
            heard_s = clock.monotonic_s()
            metrics.wrote(store, written)
            teller.wrote(line_of(store, written, checkpoint, clock))
        if newest is not None:
            if not found or (copies.last is not None and copies.last >= newest):
                return
            continue
        if found:
            if wait(0.0):
                return
            continue
        now_s = clock.monotonic_s()
        if now_s - heard_s > _RENEW_S:
            copies.renew()
            heard_s = now_s
        teller.rests()
        if wait(_POLL_S):
            return


def lag_of(checkpoint: Checkpoint, batch: int | None, clock: Clock) -> tuple[int, float]:
    """The committed batches that a store with this last batch lacks, and the age of the first.

    A store whose last batch is not known lacks all. Of a batch that Spark has deleted the age is
    not known: that of the next one is told. Raises CheckpointError where no batch is committed.
    """
    newest = checkpoint.newest()
    first = 0 if batch is None else batch + 1
    if newest < first:
        return 0, 0.0
    names = (one.name for one in (checkpoint.path / "commits").iterdir())
    missing = (int(name) for name in names if name.isdigit() and int(name) >= first)
    now_ms = clock.wall_ms()
    committed_ms = checkpoint.committed_ms(min(missing, default=newest))
    age_ms = 0 if committed_ms is None else max(0, now_ms - committed_ms)
    return newest + 1 - first, age_ms / 1000


def looking(path: Path, last: Callable[[], int | None]) -> Callable[[], tuple[float, float]]:
    """A function that looks at the lag of stores at any time, for `MirrorMetrics.watch`.

    last: the batch that all stores have. It is infinite where the checkpoint cannot be read.
    """

    def look() -> tuple[float, float]:
        try:
            checkpoint = Checkpoint(path)
        except CheckpointError:
            return math.inf, math.inf
        try:
            return lag_of(checkpoint, last(), SystemClock())
        except CheckpointError:
            return 0, 0.0  # No batch is committed.
        except OSError:
            return math.inf, math.inf

    return look


def line_of(store: str, written: Written, checkpoint: Checkpoint, clock: Clock) -> str:
    what = "the whole state" if written.is_whole else "changes"
    behind = _since_commit(checkpoint, written.batch, clock)
    return f"{store}: batch {written.batch}: {what}, {written.rows} rows, {behind}"


def _since_commit(checkpoint: Checkpoint, batch: int, clock: Clock) -> str:
    """The time since Spark committed a batch, as text."""
    committed_ms = checkpoint.committed_ms(batch)
    if committed_ms is None:
        return "Spark has deleted its commit"
    return f"{max(0, clock.wall_ms() - committed_ms)} ms after its commit"
