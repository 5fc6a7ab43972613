"""The demo from its first line to its last."""

import fcntl
import json
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from qss_client import Store
from qss_spark.demo.asking import Asking
from qss_spark.demo.expected import DIFFERENCES_SHOWN_MAX, differences, expected_aircraft_stats
from qss_spark.demo.processes import Job, ProgramError, jobs_directory, run_qss
from qss_spark.flights import FLIGHTS

_STORE = "aircraft-stats"
_DONE = "verdict"


@dataclass(frozen=True, slots=True)
class Play:
    """What is played: the job `aircraft_stats.py` and its store, beside each other."""

    jobs: Path
    expected: Callable[[], Mapping[str, Any]]  # What the store must hold at the end.


class Demo:
    """One run over a state directory; one that was cut short is gone on with."""

    def __init__(self, console: Console, state: Path, play: Play, *, keeps_serving: bool) -> None:
        """Nothing is started yet."""
        self._console = console
        self._state = state
        self._play = play
        self._keeps_serving = keeps_serving
        self._cluster = ("--state-dir", str(state / "cluster"))

    def run(self, wait: Callable[[], object]) -> int:
        """Everything; the exit code. `wait` returns when the person has seen enough."""
        started = time.monotonic()
        self._prepare()
        run_qss("down", *self._cluster)
        self._console.print("Starting a cluster of three store pods ...")
        try:
            expected = self._start()
            url = self._url()
            self._stream(url, sorted(expected))
            found = self._compare(url, expected)
            seconds = time.monotonic() - started
            self._console.print(f"[dim]{seconds:.0f} s in all; state in {self._state}[/dim]")
            if not found and self._keeps_serving:
                self._invite(url)
                wait()
        finally:
            run_qss("down", *self._cluster)
        return 1 if found else 0

    def _start(self) -> Mapping[str, Any]:
        """Starts the pods, and computes meanwhile what their store must hold at the end."""
        with ThreadPoolExecutor(1) as beside:
            computed = beside.submit(self._play.expected)
            run_qss("up", "--detach", *self._cluster, str(self._play.jobs / "aircraft_stats.yaml"))
            return computed.result()

    def _prepare(self) -> None:
        """A run that has ended begins anew; one that was cut short goes on."""
        if (self._state / _DONE).exists():
            run_qss("down", *self._cluster)
            shutil.rmtree(self._state)
        self._state.mkdir(parents=True, exist_ok=True)

    def _url(self) -> str:
        status = json.loads(run_qss("status", _STORE, "--output", "json", *self._cluster))
        store = status[0] if isinstance(status, list) else status
        pods = store["status"]["endpoints"]["pods"]
        url: str = pods[0]["query"]
        return url

    # --- Streaming

    def _stream(self, url: str, keys: list[str]) -> None:
        job = Job(
            self._play.jobs / "aircraft_stats.py",
            ["--url", url, "--store", _STORE, "--checkpoint", str(self._state / "job")],
            self._state / "job.log",
        )
        self._console.print(f"Streaming {FLIGHTS:,} flights into the store {_STORE} ...")
        display = Display(self._console)
        try:
            with Asking(url, _STORE, keys) as asking, display:
                for line in job.progress():
                    display.show(line, asking, job.starts)
                display.finish(asking, job.starts)
        finally:
            job.stop()

    # --- Comparing

    def _compare(self, url: str, expected: Mapping[str, Any]) -> list[str]:
        with Store(url, _STORE) as store:
            found = differences(expected, store.range())
        (self._state / _DONE).write_text("different\n" if found else "equal\n")
        if found:
            self._console.print(f"[bold red]{_STORE}: {len(found)} differences[/bold red]")
            for line in found[:DIFFERENCES_SHOWN_MAX]:
                self._console.print(f"  {line}", markup=False, highlight=False)
            return found
        self._console.print(f"[bold green]{_STORE}: {len(expected)} keys equal[/bold green]")
        return found

    def _invite(self, url: str) -> None:
        directory = self._cluster[1]
        lines = (
            f"qss status --state-dir {directory}",
            f"qss get {_STORE} N14228 --url {url}",
            f"qss scan {_STORE} --prefix N14 --limit 5 --url {url}",
            f"qss query {_STORE} RangeQuery lower=N14 upper=N15 --limit 3 --url {url}",
            f"curl -i {url}/state/stores/{_STORE}/N14228",
            f"curl {url}/state/instance/{_STORE}/N14228",
        )
        self._console.print("\nThe store keeps serving. In another terminal, try:")
        for line in lines:
            self._console.print(f"  {line}", markup=False, highlight=False, soft_wrap=True)
        self._console.print("Ctrl-C stops it.")


class Display:
    """Two live lines on a terminal; a plain line now and then elsewhere."""

    def __init__(self, console: Console) -> None:
        """Shows nothing yet."""
        self._console = console
        self._progress = Progress(
            TextColumn("stream"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("flights  batch {task.fields[batch]}"),
            TextColumn("{task.fields[rate]:>6,.0f} rows/s  {task.fields[keys]:,} keys"),
            TimeElapsedColumn(),
            console=console,
        )
        self._task = self._progress.add_task("stream", total=FLIGHTS, batch="-", rate=0.0, keys=0)
        self._rows = 0
        self._live: Live | None = None
        self._started = time.monotonic()
        self._last_plain = 0.0

    def __enter__(self) -> "Display":
        """Begins to show."""
        if self._console.is_terminal:
            self._live = Live(console=self._console, refresh_per_second=8, transient=False)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Leaves the last lines standing."""
        if self._live:
            self._live.stop()

    def show(self, line: dict[str, float] | None, asking: Asking, starts: int) -> None:
        """Takes a line of progress, and shows the newest answer beside it."""
        if line is not None:
            self._rows += int(line["rows"])
            rate = line["rows"] / line["seconds"] if line["seconds"] else 0.0
            self._progress.update(
                self._task,
                completed=self._rows,
                batch=int(line["batch"]),
                rate=rate,
                keys=int(line["keys"]),
            )
        newest = asking.newest
        answered = f"ask    {newest.count:,} answered  {newest.text}"
        if newest.failures:
            answered += f"  ({newest.failures} failed)"
        if starts > 1:
            answered += f"  (job started {starts} times)"
        if self._live:
            grid = Table.grid()
            grid.add_row(self._progress)
            grid.add_row(answered)
            self._live.update(grid)
        else:
            self._plain(line, answered)

    def finish(self, asking: Asking, starts: int) -> None:
        """The job has read everything; a killed driver may have owed a line for its last batch."""
        self._progress.update(self._task, completed=FLIGHTS)
        self.show(None, asking, starts)

    def _plain(self, line: dict[str, float] | None, answered: str) -> None:
        now = time.monotonic()
        if line is None or (now - self._last_plain < 5.0 and self._rows < FLIGHTS):
            return
        self._last_plain = now
        self._console.print(
            f"stream {self._rows:,}/{FLIGHTS:,} flights, batch {int(line['batch'])}, "
            f"{int(line['keys']):,} keys; {answered}",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )


def run_demo(state: Path) -> int:
    """The demo on this terminal, or without one. Raises ProgramError where another one runs it."""
    interactive = sys.stdout.isatty()
    play = Play(jobs_directory(), expected_aircraft_stats)
    demo = Demo(Console(), state, play, keeps_serving=interactive)
    # Ended politely it ends its programs too, as by Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with _alone(state):
        try:
            return demo.run(threading.Event().wait)
        except KeyboardInterrupt:
            return 0 if (state / _DONE).exists() else 130


@contextmanager
def _alone(state: Path) -> Iterator[None]:
    """Holds the state directory; a second demo would stop the first one's cluster."""
    state.parent.mkdir(parents=True, exist_ok=True)
    with state.with_name(f"{state.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ProgramError(
                f"another demo runs in {state}: stop it, or choose another --state-dir"
            ) from error
        yield
