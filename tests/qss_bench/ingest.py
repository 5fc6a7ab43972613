"""Measures ingest against raw writes, its effect on readers, and stalls of the event loop."""

import re
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rocksdict import WriteBatch

from qss_bench.loads.bare import open_plain
from qss_bench.loads.load import run_load
from qss_bench.loads.rows import HOUR_MS, Loader, load, make_keys, make_slices
from qss_bench.reads import head
from qss_bench.report import Figure
from qss_client.chunks.chunk import read_rows
from qss_client.chunks.chunk_schema import ChunkSchema, layout_of
from qss_client.http.sync_http import SyncHttp
from qss_client.writes.batch import stage
from qss_core.model import StoreType
from qss_testing.pods.pod_process import PodCluster

CHUNK_ROWS = 10_000
CHUNKS = 60
ROUNDS = 3
TIMED_CHUNKS = 20
TIMED_ROUNDS = 5
# Shares of KeyValue ingest. The put of a version reads its neighbours one by one.
TIMED_AT_LEAST = {"Window": 0.7, "Session": 0.7, "Versioned": 0.15}
READERS = 8
INGEST_S = 6.0
ROWS_PER_S = 100_000
PRESENT = 200_000


def measure(directory: Path) -> list[Figure]:
    """The figures of throughput, read latency and stalls."""
    keys = make_keys(PRESENT)
    with PodCluster(directory / "ingest", partitions=1, value_serde="bytes") as cluster:
        throughput = measure_throughput(directory, cluster)
    with PodCluster(directory / "tail", partitions=4, value_serde="bytes") as cluster:
        load(cluster.metadata, keys)
        tail = measure_tail(cluster, keys)
        stall = measure_stall(cluster, keys)
    return [throughput, tail, stall, *measure_timed(directory)]


def measure_timed(directory: Path) -> list[Figure]:
    """Rows per second into stores with times, compared with a KeyValue store, in turns."""
    with ExitStack() as stack:

        def loader_of(name: str, **definition: Any) -> tuple[Loader, ChunkSchema]:
            cluster = PodCluster(directory / name, partitions=1, value_serde="bytes", **definition)
            stack.enter_context(cluster)
            return Loader(cluster.metadata), layout_of(cluster.assignment.definition)

        day_ms = 24 * HOUR_MS
        loaders = {
            "KeyValue": loader_of("plain"),
            "Window": loader_of(
                "windows", type=StoreType.WINDOW, window_size_ms=HOUR_MS, retention_ms=day_ms
            ),
            "Session": loader_of(
                "sessions",
                type=StoreType.SESSION,
                session_gap_ms=HOUR_MS,
                retention_ms=day_ms,
                format="Plain",
            ),
            "Versioned": loader_of(
                "versions", type=StoreType.VERSIONED, history_retention_ms=day_ms, format="Plain"
            ),
        }
        rates: dict[str, list[float]] = {name: [] for name in loaders}
        for number in range(TIMED_ROUNDS):
            for name, (loader, layout) in loaders.items():
                rates[name].append(_rows_per_s(loader, layout, number))
    return [_against_key_value(name, rates) for name in TIMED_AT_LEAST]


def _rows_per_s(loader: Loader, layout: ChunkSchema, number: int) -> float:
    chunks = [
        make_slices(make_keys(CHUNK_ROWS, seed=1000 * number + chunk), 1, layout)
        for chunk in range(TIMED_CHUNKS)
    ]
    started = time.perf_counter()
    for slices in chunks:
        loader.write(slices)
    return TIMED_CHUNKS * CHUNK_ROWS / (time.perf_counter() - started)


def _against_key_value(name: str, rates: dict[str, list[float]]) -> Figure:
    pairs = zip(rates[name], rates["KeyValue"], strict=True)
    ours, theirs = sorted(pairs, key=lambda pair: pair[0] / pair[1])[TIMED_ROUNDS // 2]
    return Figure(
        name=f"ingest into a {name} store / KeyValue ingest",
        value=ours / theirs,
        unit="x",
        at_least=TIMED_AT_LEAST[name],
        detail=f"{ours:,.0f} / {theirs:,.0f} rows a second",
    )


def measure_throughput(directory: Path, cluster: PodCluster) -> Figure:
    """Rows per second staged, decided, committed and synced, against a loop of raw writes."""
    ratios = []
    detail = ""
    for number in range(ROUNDS):
        chunks = [
            make_slices(make_keys(CHUNK_ROWS, seed=1000 * number + chunk), 1)
            for chunk in range(CHUNKS)
        ]
        loader = Loader(cluster.metadata)
        started = time.perf_counter()
        for slices in chunks:
            loader.write(slices)
        ours = CHUNKS * CHUNK_ROWS / (time.perf_counter() - started)
        rows = [
            (rows.keys, rows.values)
            for slices in chunks
            for rows in read_rows(slices[0].data, CHUNK_ROWS)
        ]
        theirs = CHUNKS * CHUNK_ROWS / _raw_write_s(str(directory / f"raw{number}"), rows)
        ratios.append(ours / theirs)
        detail = f"{ours:,.0f} / {theirs:,.0f} rows a second"
    return Figure(
        name="ingest of 10 000-row chunks / raw unsynced writes",
        value=sorted(ratios)[len(ratios) // 2],
        unit="x",
        at_least=0.6,
        detail=detail,
    )


def _raw_write_s(directory: str, chunks: list[tuple[list[bytes], list[bytes | None]]]) -> float:
    """Writes one WriteBatch per chunk; like a job's rows, the rows are not sorted."""
    db = open_plain(directory)
    shuffled = [
        sorted(zip(keys, values, strict=True), key=lambda row: hash(row[0]))
        for keys, values in chunks
    ]
    started = time.perf_counter()
    for rows in shuffled:
        batch = WriteBatch(raw_mode=True)
        for key, value in rows:
            batch.put(key, value)
        db.write(batch)
    took_s = time.perf_counter() - started
    db.close()
    return took_s


def measure_tail(cluster: PodCluster, keys: list[bytes]) -> Figure:
    """The 99th percentile of GETs during ingest, against that of an idle pod."""
    pod = cluster.pods[0]
    assert pod.process is not None
    heads = [
        head(f"/state/stores/{cluster.store}/{key.decode()}") for key in keys[:: PRESENT // 20_000]
    ]
    pid = pod.process.pid

    def gets(seconds: float, *, ingesting: bool) -> float:
        writer = Ingest(cluster) if ingesting else None
        load = run_load(
            pod.ports[0],
            heads,
            pid=pid,
            connections=READERS,
            seconds=seconds,
            pause_s=0.002,
            meanwhile=writer.run if writer else None,
        )
        if writer:
            rates.append(writer.rows_per_s)
        return load.percentile(0.99)

    rates: list[float] = []
    pairs = [(gets(INGEST_S, ingesting=False), gets(INGEST_S, ingesting=True)) for _ in range(2)]
    idle, busy = min(pairs, key=lambda pair: pair[1] / pair[0])
    return Figure(
        name="p99 GET during 100 000 rows/s / idle",
        value=busy / idle,
        unit="x",
        at_most=8.0,
        detail=f"{busy * 1000:.2f} / {idle * 1000:.2f} ms at {max(rates):,.0f} rows a second",
    )


class Ingest:
    """Ten prepared batches of 10 000 rows a second."""

    def __init__(self, cluster: PodCluster) -> None:
        partitions = cluster.assignment.definition.partitions
        count = int(INGEST_S * ROWS_PER_S / CHUNK_ROWS)
        self._batches = [
            make_slices(make_keys(CHUNK_ROWS, seed=number), partitions) for number in range(count)
        ]
        self._loader = Loader(cluster.metadata)
        self.rows_per_s = 0.0

    def run(self) -> None:
        """Writes at the rate, or as fast as the pod accepts the rows."""
        started = time.perf_counter()
        for number, slices in enumerate(self._batches):
            due_s = started + number * CHUNK_ROWS / ROWS_PER_S
            time.sleep(max(0.0, due_s - time.perf_counter()))  # noqa: TID251 a load has a rate.
            self._loader.write(slices)
        took_s = time.perf_counter() - started
        self.rows_per_s = len(self._batches) * CHUNK_ROWS / took_s


def measure_stall(cluster: PodCluster, keys: list[bytes]) -> Figure:
    """The longest stall of the event loop in an ingest, a commit and a scan."""
    pod = cluster.pods[0]
    http = SyncHttp()
    loader = Loader(cluster.metadata)
    stall_ms(http, pod.ops)
    stalls = {}
    slices = make_slices(keys[:100_000], cluster.assignment.definition.partitions)
    staged = stage(http, loader.run, loader.batch, "stall", slices)
    stalls["stage"] = stall_ms(http, pod.ops)
    loader.commit(staged)
    stalls["commit"] = stall_ms(http, pod.ops)
    scan = f"{pod.query}/state/stores/{cluster.store}"
    http.request("GET", scan, headers={"Accept": "application/x-ndjson"}, timeout_s=60.0)
    stalls["scan"] = stall_ms(http, pod.ops)
    http.close()
    return Figure(
        name="longest event-loop stall",
        value=max(stalls.values()),
        unit="ms",
        at_most=20.0,
        detail=", ".join(f"{what} {stall:.1f} ms" for what, stall in stalls.items()),
    )


def stall_ms(http: SyncHttp, ops: str) -> float:
    """The longest stall since the last call."""
    text = http.request("GET", f"{ops}/metrics").body.decode()
    found = re.search(r"^qss_loop_stall_maximum_seconds (\S+)", text, re.MULTILINE)
    assert found is not None
    return float(found[1]) * 1000
