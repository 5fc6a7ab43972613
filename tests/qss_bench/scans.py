"""Measures scans, short ranges and the windows of a key against bare rocksdict iterators."""

import http.client
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from pathlib import Path
from statistics import median
from typing import cast

import pyarrow as pa

from qss_bench.loads.bare import fill, open_plain
from qss_bench.loads.rows import VALUE_BYTES, load, make_keys
from qss_bench.reads import reopen
from qss_bench.report import Figure
from qss_client.chunks.chunk import encode_slice
from qss_client.http.sync_http import SyncHttp
from qss_client.writes.batch import WRITE_LIMITS, commit, discover, open_writer, stage
from qss_core.formats.timed_keys import encode_window_key
from qss_core.model import StoreType
from qss_testing.pods.pod_process import PodCluster, PodProcess

ROWS = 100_000
ROUNDS = 7
SCANS = 3  # Per measurement.
WINDOWS = RANGE_ROWS = 100
WINDOW_KEYS = 500
FETCHES = 500
HOUR_MS = 3_600_000
_ARROW = "application/vnd.apache.arrow.stream"
_NDJSON = "application/x-ndjson"


def measure(directory: Path) -> list[Figure]:
    """All figures, without targets: CPU seconds of this thread against those of the server.

    A bare iterator sends nothing to nobody: the targets are those against peers that people use.
    """
    keys = make_keys(ROWS)
    fill(str(directory / "plain"), keys, b"v" * VALUE_BYTES).close()
    bare = open_plain(str(directory / "plain"))

    def scan() -> None:
        assert sum(1 for _ in bare.items()) == ROWS

    with PodCluster(directory / "scan", partitions=1, value_serde="bytes") as cluster:
        load(cluster.metadata, keys)
        reopen(cluster)
        paths = [f"/state/stores/{cluster.store}"] * SCANS
        figures = [
            _compared(
                f"scan 100 000 rows, {name} / bare items()",
                _Work(scan, ROWS),
                _Work(_requests(cluster.pods[0], paths, accept), ROWS * SCANS),
                cluster.pods[0],
            )
            for name, accept in (("Arrow", _ARROW), ("NDJSON", _NDJSON))
        ]
        ordered = sorted(keys)
        bounds = [
            (ordered[start], ordered[start + RANGE_ROWS - 1])
            for start in range(0, ROWS - RANGE_ROWS, ROWS // FETCHES)
        ]

        def ranges() -> None:
            for first, last in bounds:
                rows = cast(Iterator[tuple[bytes, bytes]], bare.items(from_key=first))
                found = sum(1 for _ in takewhile(partial(_is_before, last), rows))
                assert found == RANGE_ROWS

        asked = [f"{paths[0]}?from={first.decode()}&to={last.decode()}" for first, last in bounds]
        figures.append(
            _compared(
                "range of 100 rows / bare items()",
                _Work(ranges, len(bounds) * RANGE_ROWS),
                _Work(
                    _requests(cluster.pods[0], asked, "application/json"),
                    len(bounds) * RANGE_ROWS,
                ),
                cluster.pods[0],
            )
        )
    bare.close()
    return [*figures, _windows(directory)]


def _is_before(last: bytes, row: tuple[bytes, bytes]) -> bool:
    return row[0] <= last


def _windows(directory: Path) -> Figure:
    names = [f"k{number:04d}" for number in range(WINDOW_KEYS)]
    rows = [(key.encode(), window * HOUR_MS) for key in names for window in range(WINDOWS)]
    values = [os.urandom(VALUE_BYTES) for _ in rows]
    bare = open_plain(str(directory / "windows"))
    for (key, start), value in zip(rows, values, strict=True):
        bare[encode_window_key(key, start)] = value
    bare.flush()
    asked = [names[number * 7 % WINDOW_KEYS] for number in range(FETCHES)]

    def fetch() -> None:
        for name in asked:
            cursor = bare.iter()
            cursor.seek(encode_window_key(name.encode(), 0))
            for _ in range(WINDOWS):
                assert cursor.valid()
                cursor.key(), cursor.value()
                cursor.next()

    with PodCluster(
        directory / "pod",
        partitions=1,
        value_serde="bytes",
        type=StoreType.WINDOW,
        window_size_ms=HOUR_MS,
        retention_ms=1000 * HOUR_MS,
    ) as cluster:
        _load_windows(cluster, rows, values)
        reopen(cluster)
        paths = [f"/state/windows/{cluster.store}/{name}?limit={WINDOWS}" for name in asked]
        figure = _compared(
            "fetch 100 windows of a key / bare iterator",
            _Work(fetch, FETCHES * WINDOWS),
            _Work(
                _requests(cluster.pods[0], paths, "application/json"),
                FETCHES * WINDOWS,
            ),
            cluster.pods[0],
        )
    bare.close()
    return figure


def _load_windows(cluster: PodCluster, rows: list[tuple[bytes, int]], values: list[bytes]) -> None:
    table = pa.table(
        {
            "key": pa.array([key for key, _ in rows], pa.binary()),
            "value": pa.array(values, pa.binary()),
            "window_start": pa.array([start for _, start in rows], pa.int64()),
        }
    )
    http_client = SyncHttp()
    metadata = discover(http_client, cluster.url, cluster.store, WRITE_LIMITS)
    run = open_writer(http_client, metadata, "bench", query_id="q", run_id="r")
    staged = stage(http_client, run, 0, "t", [encode_slice(0, table)])
    commit(http_client, run, 0, staged, position={}, fingerprint="f")
    http_client.close()


@dataclass(frozen=True, slots=True)
class _Work:
    """The measured function, and the number of rows it returns."""

    run: Callable[[], None]
    rows: int


def _compared(name: str, theirs: _Work, ours: _Work, pod: PodProcess) -> Figure:
    """Measures both in turn, so that other work on the machine slows both."""
    assert pod.process is not None
    pid = pod.process.pid
    theirs.run()
    ours.run()
    pairs = []
    for _ in range(ROUNDS):
        bare_s = _took_s(theirs, time.thread_time)
        pairs.append((bare_s, _took_s(ours, lambda: cpu_s(pid))))
    bare_s, served_s = median(bare for bare, _ in pairs), median(served for _, served in pairs)
    return Figure(
        name=name,
        value=median(bare / served for bare, served in pairs),
        unit="x",
        detail=f"{1 / served_s:,.0f} / {1 / bare_s:,.0f} rows a CPU s",
    )


def _took_s(work: _Work, clock: Callable[[], float]) -> float:
    """The CPU seconds that one row takes."""
    started = clock()
    work.run()
    return (clock() - started) / work.rows


def _requests(pod: PodProcess, paths: list[str], accept: str) -> Callable[[], None]:
    def ask() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", pod.ports[0])
        for path in paths:
            connection.request("GET", path, headers={"Accept": accept})
            answer = connection.getresponse()
            assert answer.status == 200
            while answer.read(1 << 20):
                pass
        connection.close()

    return ask


def cpu_s(pid: int) -> float:
    """CPU time of all threads, from a clock of nanoseconds: /proc/PID/stat counts in 10 ms."""
    files = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(file.read_text().split()[0]) for file in files) / 1e9
