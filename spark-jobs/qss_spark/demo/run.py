"""Runs the demo: the cluster, the jobs, the queries and the comparison."""

import fcntl
import json
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from qss_client import Store
from qss_spark.demo.driver import Driver
from qss_spark.demo.expected import DIFFERENCES_SHOWN_MAX, Expected, differences
from qss_spark.demo.faults import Faults
from qss_spark.demo.interruptions import interrupt_on_polite_ends, uninterrupted
from qss_spark.demo.mirror import Mirror
from qss_spark.demo.processes import (
    Cluster,
    ProgramError,
    jobs_directory,
    run_qss,
)
from qss_spark.demo.query_load import Answered, QueryLoad
from qss_spark.demo.scenarios import SCENARIOS, Part, Scenario

_DONE = "verdict"
_JOBS = "jobs.json"


class Demo:
    """One run with a state directory; it continues an interrupted run."""

    def __init__(
        self,
        console: Console,
        state: Path,
        jobs: Path,
        scenarios: Sequence[Scenario],
        *,
        keeps_serving: bool,
        makes_faults: bool,
    ) -> None:
        """`jobs` is the directory of the jobs' files. It starts nothing yet."""
        self._makes_faults = makes_faults
        self._console = console
        self._state = state
        self._jobs = jobs
        self._scenarios = scenarios
        self._keeps_serving = keeps_serving
        self._cluster = ("--state-dir", str(state / "cluster"))

    def run(self, wait: Callable[[], object]) -> int:
        """Runs the demo; returns the exit code. `wait` returns when the person ends the demo."""
        started = time.monotonic()
        self._prepare()
        run_qss("down", *self._cluster)
        self._console.print("Starting the store pods ...")
        with self._running() as cluster:
            with ThreadPoolExecutor(1) as beside:
                # Meanwhile write the jobs' input, and compute the expected rows.
                written = [beside.submit(write, path) for path, write in self._inputs().items()]
                computed = {
                    part.store: beside.submit(part.expected)
                    for scenario in self._scenarios
                    for part in scenario.parts
                }
                cluster.wait_until_ready()
                for one in written:
                    one.result()
                urls = {store: self._url(store) for store in computed}
                self._print_consoles(urls)
                driver = Driver(self._state / "jobs.log")
                try:
                    found = [
                        self._run_scenario(driver, scenario, urls, computed)
                        for scenario in self._scenarios
                    ]
                finally:
                    driver.stop()
            is_equal = not any(found)
            (self._state / _DONE).write_text("equal\n" if is_equal else "different\n")
            seconds = time.monotonic() - started
            self._console.print(f"[dim]{seconds:.0f} s in all; state in {self._state}[/dim]")
            if is_equal and self._keeps_serving:
                self._print_examples(urls)
                wait()
        return 0 if is_equal else 1

    @contextmanager
    def _running(self) -> Iterator[Cluster]:
        """The stores, running inside the block; a kill -9 of this program ends them, too."""
        resources = [str(self._jobs / f"{one.file}.yaml") for one in self._scenarios]
        cluster = Cluster(*self._cluster, *resources)
        try:
            yield cluster
        finally:
            with uninterrupted():
                self._console.print("Stopping the store pods ...")
                cluster.stop()

    def _prepare(self) -> None:
        """Clears the state directory, unless it has an interrupted run of the same jobs."""
        names = [one.name for one in self._scenarios]
        kept = self._state / _JOBS
        # Compared as text: after a crash or on a full disk the file may be incomplete.
        text = json.dumps(names)
        is_other = kept.exists() and kept.read_text(errors="replace") != text
        if (self._state / _DONE).exists() or is_other:
            run_qss("down", *self._cluster)
            shutil.rmtree(self._state)
        self._state.mkdir(parents=True, exist_ok=True)
        kept.write_text(text)

    def _url(self, store: str) -> str:
        """The URLs of all pods: a single pod may be restarting when a job starts."""
        status = json.loads(run_qss("status", store, "--output", "json", *self._cluster))
        found = status[0] if isinstance(status, list) else status
        return ",".join(pod["query"] for pod in found["status"]["endpoints"]["pods"])

    def _inputs(self) -> dict[Path, Callable[[Path], object]]:
        return {self._state / scenario.input: scenario.write_input for scenario in self._scenarios}

    def _run_scenario(
        self,
        driver: Driver,
        scenario: Scenario,
        urls: Mapping[str, str],
        computed: Mapping[str, "Future[Expected]"],
    ) -> list[str]:
        """Runs the job and compares its stores with the expected rows; returns the differences."""
        asked = scenario.parts[-1]
        self._stream(driver, scenario, urls, sorted(computed[asked.store].result()))
        return [
            line
            for part in scenario.parts
            for line in self._compare(part, urls[part.store], computed[part.store].result())
        ]

    # --- Streaming

    def _stream(
        self, driver: Driver, scenario: Scenario, urls: Mapping[str, str], places: Sequence[Any]
    ) -> None:
        asked = scenario.parts[-1].store
        self._console.print(f"Streaming {scenario.told} ...", highlight=False, soft_wrap=True)
        display = Display(self._console, scenario)
        asking = QueryLoad(
            urls[asked], asked, scenario.name, lambda store: scenario.ask(store, places)
        )
        pods = urls[asked].count(",") + 1
        faults = Faults(asked, pods, self._cluster) if self._makes_faults else None
        with display:
            with asking, closing(self._progress(driver, scenario, urls)) as progress:
                for line in progress:
                    display.show(line, asking, driver.starts)
                    if faults is not None:
                        faults.make(display.share, display.tell)
            display.finish(asking, driver.starts)

    def _progress(
        self, driver: Driver, scenario: Scenario, urls: Mapping[str, str]
    ) -> Generator[dict[str, Any] | None, None, None]:
        """The progress lines of the job, beside which `qss mirror` copies its state if need be."""
        arguments = [
            *scenario.url_arguments(urls),
            *("--checkpoint", str(self._state / "jobs" / scenario.name)),
            *("--input", str(self._state / scenario.input)),
        ]
        progress = driver.run(self._jobs / f"{scenario.file}.py", arguments)
        if scenario.is_mirrored:
            mirror = Mirror(
                self._checkpoint(scenario),
                self._jobs / scenario.mirror_file,
                self._cluster,
                self._state / "mirror.log",
            )
            progress = mirror.beside(progress)
        yield from progress

    def _checkpoint(self, scenario: Scenario) -> Path:
        return self._state / "jobs" / scenario.name / "checkpoint"

    # --- Comparing

    def _compare(self, part: Part, url: str, expected: Expected) -> list[str]:
        with Store(url, part.store) as store:
            found = differences(expected, part.rows(store))
        if found:
            self._console.print(f"[bold red]{part.store}: {len(found)} differences[/bold red]")
            for line in found[:DIFFERENCES_SHOWN_MAX]:
                self._console.print(f"  {line}", markup=False, highlight=False)
            return found
        verdict = f"{part.store}: {len(expected)} {part.unit} equal"
        self._console.print(f"[bold green]{verdict}[/bold green]")
        return found

    def _print_consoles(self, urls: Mapping[str, str]) -> None:
        """The address of each store's console, on its last pod: faults kill the first one."""
        self._console.print("Watch the stores in a browser:")
        for store, pods in urls.items():
            address = f"{pods.rpartition(',')[2]}/console/"
            self._console.print(f"  {store}: {address}", highlight=False, soft_wrap=True)

    def _print_examples(self, urls: Mapping[str, str]) -> None:
        self._console.print("\nThe stores keep serving. In another terminal, try:")
        for scenario in self._scenarios:
            for line in scenario.example_commands:
                url = urls[scenario.parts[-1].store].partition(",")[0]
                command = line.format(
                    url=url, state=self._cluster[1], checkpoint=self._checkpoint(scenario)
                )
                self._console.print(
                    f"  {as_typed(command)}", markup=False, highlight=False, soft_wrap=True
                )
        self._console.print("Ctrl-C stops the stores.")


def as_typed(command: str) -> str:
    """A command for a new terminal, where this environment's programs may not be on the PATH."""
    program, _, arguments = command.partition(" ")
    here = Path(sys.executable).with_name(program)
    if shutil.which(program) is not None or not here.exists():
        return command
    return f"{os.path.relpath(here)} {arguments}"


class Display:
    """Shows progress: two live lines on a terminal, else an occasional plain line."""

    def __init__(self, console: Console, scenario: Scenario) -> None:
        """Shows how much of the scenario's input its job has read."""
        self._console = console
        self._unit = scenario.parts[-1].unit
        self._total = scenario.total
        self._inputs = scenario.counted
        self._progress = Progress(
            TextColumn("stream"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn(f"{scenario.counted}  batch {{task.fields[batch]}}"),
            TextColumn("{task.fields[rate]:>6,.0f} rows/s  {task.fields[rows]}"),
            TimeElapsedColumn(),
            console=console,
        )
        self._task = self._progress.add_task(
            "stream", total=scenario.total, batch="-", rate=0.0, rows=""
        )
        self._rows = 0
        self._live: Live | None = None
        self._last_plain = 0.0
        self._newest_line: dict[str, float] | None = None

    def __enter__(self) -> "Display":
        if self._console.is_terminal:
            self._live = Live(console=self._console, refresh_per_second=8, transient=False)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stops updating; the last lines stay."""
        if self._live:
            self._live.stop()

    @property
    def share(self) -> float:
        """The share of the input that the job has read, from 0 to 1."""
        return min(1.0, self._rows / self._total)

    def tell(self, text: str) -> None:
        """Prints a line above the live ones."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def show(self, line: dict[str, float] | None, asking: QueryLoad, starts: int) -> None:
        """Takes a progress line, and shows it with the newest answer."""
        if line is not None:
            self._newest_line = line
            self._rows += int(line["rows"])
            rate = line["rows"] / line["seconds"] if line["seconds"] else 0.0
            self._progress.update(
                self._task,
                completed=self._rows,
                batch=int(line["batch"]),
                rate=rate,
            )
        newest = asking.newest
        self._progress.update(self._task, rows=self._counted(newest))
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
            self._plain(line, asking, answered)

    def _counted(self, newest: Answered) -> str:
        """The store's number of rows and their unit."""
        rows = "-" if newest.rows is None else f"{newest.rows:,}"
        return f"{rows} {self._unit}"

    def finish(self, asking: QueryLoad, starts: int) -> None:
        """Shows the end of a job, which has read all its input.

        The progress lines may have counted fewer: Spark does not count rows that it need not read,
        and a killed driver loses a line.
        """
        self._progress.update(self._task, completed=self._total)
        is_told = self._rows >= self._total
        self._rows = self._total
        newest = None if self._live or is_told else self._newest_line
        self.show(newest and {**newest, "rows": 0}, asking, starts)

    def _plain(self, line: dict[str, float] | None, asking: QueryLoad, answered: str) -> None:
        now = time.monotonic()
        if line is None or (now - self._last_plain < 5.0 and self._rows < self._total):
            return
        self._last_plain = now
        self._console.print(
            f"stream {self._rows:,}/{self._total:,} {self._inputs}, batch {int(line['batch'])}, "
            f"{self._counted(asking.newest)}; {answered}",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )


def run_demo(
    state: Path, scenarios: Sequence[Scenario] = SCENARIOS, *, makes_faults: bool = True
) -> int:
    """Runs the demo. Raises ProgramError if another demo uses the directory."""
    interactive = sys.stdout.isatty()
    demo = Demo(
        Console(),
        state,
        jobs_directory(),
        scenarios,
        keeps_serving=interactive,
        makes_faults=makes_faults,
    )
    interrupt_on_polite_ends()
    with _alone(state):
        try:
            return demo.run(threading.Event().wait)
        except KeyboardInterrupt:
            return 0 if (state / _DONE).exists() else 130


@contextmanager
def _alone(state: Path) -> Iterator[None]:
    """Locks the state directory: a second demo would stop the first one's cluster."""
    state.parent.mkdir(parents=True, exist_ok=True)
    with state.with_name(f"{state.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ProgramError(
                f"another demo runs in {state}: stop it, or choose another --state-dir"
            ) from error
        yield
