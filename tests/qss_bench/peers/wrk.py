"""Loads on one server: requests a CPU second of the server, latencies, and rows of a full scan."""

import re
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from qss_bench.loads.load import cpu_seconds
from qss_bench.peers.kafka import SCRIPTS
from qss_bench.peers.needs import path_of

_RESULT = re.compile(r"RESULT rps=(\d+) p50=(\d+) p99=(\d+) bad=(\d+)")
_ROWS = re.compile(r"RESULT rows=(\d+) rows_per_s=(\d+)")
_NDJSON = "application/x-ndjson"
_CONNECTIONS = 32


@dataclass(frozen=True, slots=True)
class Measured:
    """One run: work a CPU second and a second, and latencies in ms (0 where it has none)."""

    per_cpu_s: float
    per_s: float
    p50_ms: float = 0.0
    p99_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Load:
    """A command that loads a server for some seconds, and the process of that server."""

    command: tuple[str, ...]
    pid: int

    def run(self, seconds: int, core: int) -> Measured:
        """Runs the load on a core; every answer has to be good."""
        before = cpu_seconds(self.pid)
        command = [one.replace("SECONDS", str(seconds)) for one in self.command]
        text = _on(core, *command)
        cpu_s = cpu_seconds(self.pid) - before
        found = _RESULT.search(text)
        assert found is not None, f"{command}: {text[-500:]}"
        rate, p50_us, p99_us, bad = map(int, found.groups())
        assert bad == 0, f"{command}: {bad} answers were errors"
        return Measured(rate * seconds / cpu_s, rate, p50_us / 1000, p99_us / 1000)


@dataclass(frozen=True, slots=True)
class Scan:
    """A read of all rows over one connection."""

    url: str
    pid: int
    rows: int
    answer: Path

    def run(self, seconds: int, core: int) -> Measured:
        """Reads all rows once, however many seconds it takes, and counts them."""
        before, began_s = cpu_seconds(self.pid), time.perf_counter()
        head = f"Accept: {_NDJSON}"
        _on(core, path_of("curl"), "-s", "-f", "-H", head, "-o", str(self.answer), self.url)
        cpu_s, took_s = cpu_seconds(self.pid) - before, time.perf_counter() - began_s
        with self.answer.open("rb") as lines:
            seen = sum(1 for line in lines if b'"key"' in line)
        assert seen == self.rows, f"{self.url}: {seen} of {self.rows} rows"
        return Measured(self.rows / cpu_s, self.rows / took_s)


@dataclass(frozen=True, slots=True)
class CommandScan:
    """A command that reads all rows of a server once, and the process of that server."""

    command: tuple[str, ...]
    pid: int
    rows: int

    def run(self, seconds: int, core: int) -> Measured:
        """Reads all rows once, however many seconds it takes."""
        before = cpu_seconds(self.pid)
        found = _ROWS.search(_on(core, *self.command))
        assert found is not None, self.command
        assert int(found[1]) == self.rows, f"{self.command}: {found[1]} of {self.rows} rows"
        return Measured(self.rows / (cpu_seconds(self.pid) - before), float(found[2]))


def wrk(pid: int, url: str, script: str, path: str, requests: Path) -> Load:
    """A load by wrk: each of its connections has one request under way."""
    options = ("-t1", f"-c{_CONNECTIONS}", "-dSECONDSs", "--latency", "-s", str(SCRIPTS / script))
    return Load((path_of("wrk"), *options, url, "--", path, str(requests)), pid)


def middle(runs: list[Measured]) -> Measured:
    """The medians of some runs, each figure by itself."""
    return Measured(
        median(one.per_cpu_s for one in runs),
        median(one.per_s for one in runs),
        median(one.p50_ms for one in runs),
        median(one.p99_ms for one in runs),
    )


def _on(core: int, *command: str) -> str:
    """Runs a command on a core; returns its output."""
    pinned = [path_of("taskset"), "-c", str(core), *command]
    return subprocess.run(pinned, check=True, capture_output=True, text=True).stdout
