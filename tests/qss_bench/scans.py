"""Scans of 100 000 rows, and the windows of a key, against iterators of rocksdict alone."""

import http.client
import os
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import pyarrow as pa

from qss_bench.bare import fill, open_plain
from qss_bench.reads import reopen
from qss_bench.report import Figure
from qss_bench.rows import VALUE_BYTES, load, make_keys
from qss_client.chunks import encode_slice
from qss_client.http_sync import SyncHttp
from qss_client.writing import WRITE_LIMITS, commit, discover, open_writer, stage
from qss_core.model import StoreType
from qss_core.timed_keys import encode_window_key
from qss_testing.pod_process import PodCluster, PodProcess

ROWS = 100_000
ROUNDS = 5
WINDOWS = 100
WINDOW_KEYS = 500
FETCHES = 500
HOUR_MS = 3_600_000
_ARROW = "application/vnd.apache.arrow.stream"
_NDJSON = "application/x-ndjson"


def measure(directory: Path) -> list[Figure]:
    """All three figures: CPU seconds of the server against CPU seconds of this thread."""
    keys = make_keys(ROWS)
    fill(str(directory / "plain"), keys, b"v" * VALUE_BYTES).close()
    with PodCluster(directory / "scan", partitions=1, value_serde="bytes") as cluster:
        load(cluster.metadata, keys)
        reopen(cluster)
        path = f"/state/stores/{cluster.store}"
        scans = [
            _figure(
                f"scan 100 000 rows, {name} / bare items()",
                at_least,
                _bare_rows_per_s(str(directory / "plain")),
                _served_rows_per_s(cluster.pods[0], [path], ROWS, accept),
            )
            for name, accept, at_least in (("Arrow", _ARROW, 0.55), ("NDJSON", _NDJSON, 0.4))
        ]
    return [*scans, _windows(directory)]


def _windows(directory: Path) -> Figure:
    names = [f"k{number:04d}" for number in range(WINDOW_KEYS)]
    rows = [(key.encode(), window * HOUR_MS) for key in names for window in range(WINDOWS)]
    values = [os.urandom(VALUE_BYTES) for _ in rows]
    bare = open_plain(str(directory / "windows"))
    for (key, start), value in zip(rows, values, strict=True):
        bare[encode_window_key(key, start)] = value
    bare.flush()
    asked = [names[number * 7 % WINDOW_KEYS] for number in range(FETCHES)]
    started = time.thread_time()
    for name in asked:
        cursor = bare.iter()
        cursor.seek(encode_window_key(name.encode(), 0))
        for _ in range(WINDOWS):
            assert cursor.valid()
            cursor.key(), cursor.value()
            cursor.next()
    theirs = FETCHES * WINDOWS / (time.thread_time() - started)
    bare.close()
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
        ours = _served_rows_per_s(cluster.pods[0], paths, FETCHES * WINDOWS, "application/json")
    return _figure("fetch 100 windows of a key / bare iterator", 0.3, theirs, ours)


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


def _figure(name: str, at_least: float, theirs: float, ours: float) -> Figure:
    return Figure(
        name=name,
        value=ours / theirs,
        unit="x",
        at_least=at_least,
        detail=f"{ours:,.0f} / {theirs:,.0f} rows a CPU s",
    )


def _bare_rows_per_s(directory: str) -> float:
    db = open_plain(directory)

    def scan() -> None:
        assert sum(1 for _ in db.items()) == ROWS

    found = ROWS / _median_s(scan, time.thread_time)
    db.close()
    return found


def _served_rows_per_s(pod: PodProcess, paths: list[str], rows: int, accept: str) -> float:
    process = pod.process
    assert process is not None
    connection = http.client.HTTPConnection("127.0.0.1", pod.ports[0])

    def ask() -> None:
        for path in paths:
            connection.request("GET", path, headers={"Accept": accept})
            answer = connection.getresponse()
            assert answer.status == 200
            while answer.read(1 << 20):
                pass

    found = rows / _median_s(ask, lambda: _cpu_s(process.pid))
    connection.close()
    return found


def _median_s(work: Callable[[], None], clock: Callable[[], float]) -> float:
    work()
    took = []
    for _ in range(ROUNDS):
        started = clock()
        work()
        took.append(clock() - started)
    return median(took)


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
