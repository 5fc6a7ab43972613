"""Compares the reads of one store pod with those of Kafka Streams and of Redis, in one run.

The servers run on one core and the load on another; each load takes the servers in turn.
"""

import base64
import json
import subprocess
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from qss_bench.loads.load import cpu_seconds
from qss_bench.loads.rows import Loader
from qss_bench.peers.data_set import batches, probes, ranges, write_requests
from qss_bench.peers.kafka import PARTITIONS, SCRIPTS, Peer, build, peer
from qss_bench.peers.needs import cores, path_of
from qss_bench.peers.servers import redis_server
from qss_bench.peers.tables import Table
from qss_bench.peers.wrk import CommandScan, Load, Measured, Scan, middle, wrk
from qss_bench.report import Figure
from qss_testing.pods.pod_process import PodCluster
from qss_testing.waiting import wait_until

NEEDS = {"java", "mvn", "gcc", "wrk", "curl", "redis-server", "redis-cli", "taskset"}
ROWS = 1_000_000
_ROUNDS, _SECONDS = 3, 6
_WARM_PEER_S, _WARM_S = 12, 2  # A JVM compiles for so long; the others have nothing to compile.
_ANSWERS_S = 240.0
_COMPARED = 20
_TARGETS = {"GET": 2.0, "get of 100 keys": 2.5, "range of about 100 rows": 1.2, "full scan": 1.1}
_UNITS = {"full scan": "rows"}
Works = dict[str, Load | Scan | CommandScan]


@dataclass(frozen=True, slots=True)
class Return:
    """A start after SIGKILL: seconds until all probes are right, and the answers before it."""

    seconds: float
    wrong: int


def measure(directory: Path) -> tuple[list[Table], list[Figure]]:
    """Loads both stores, kills both, and puts the same reads on them and on Redis."""
    build()
    core, load_core = cores()[:2]
    write_requests(directory, ROWS)
    with (
        peer(directory / "kafka", ROWS, core, load_core) as app,
        _pod(directory, core) as cluster,
        _redis(directory, core) as (port, redis_pid),
    ):
        life = Table("life of a store", ("work", "Kafka Streams", "store pod", "ratio"))
        _lives(life, app, cluster)
        _same_ranges(_peer_path(app), _pod_path(cluster))
        servers = {
            "peer": _works(directory, app.pid, app.url, _PEER_PATHS),
            "pod": _works(directory, _pid(cluster), cluster.url, _pod_paths(cluster.store)),
            "redis": _redis_works(directory, port, redis_pid),
        }
        table, figures = _compare(servers, load_core)
    return [life, table], figures


@contextmanager
def _pod(directory: Path, core: int) -> Iterator[PodCluster]:
    pinned = (path_of("taskset"), "-c", str(core))
    with PodCluster(
        directory / "pod", partitions=PARTITIONS, value_serde="bytes", command=pinned
    ) as cluster:
        yield cluster


@contextmanager
def _redis(directory: Path, core: int) -> Iterator[tuple[int, int]]:
    """A Redis with the rows, without its files: they would be written while it is measured."""
    source, program = SCRIPTS / "resp_bench.c", directory / "resp_bench"
    subprocess.run([path_of("gcc"), "-O2", "-w", "-o", program, source], check=True)
    with redis_server(directory / "redis", "--save", "", "--appendonly", "no") as (port, pid):
        subprocess.run(
            [path_of("taskset"), "-apc", str(core), str(pid)], check=True, stdout=subprocess.DEVNULL
        )
        with (directory / "redis.resp").open("rb") as file:
            fill = [path_of("redis-cli"), "-p", str(port), "--pipe"]
            subprocess.run(fill, stdin=file, stdout=subprocess.DEVNULL, check=True)
        yield port, pid


def _pid(cluster: PodCluster) -> int:
    process = cluster.pods[0].process
    assert process is not None
    return process.pid


def _peer_path(app: Peer) -> str:
    return f"{app.url}/state/stores/kv"


def _pod_path(cluster: PodCluster) -> str:
    return f"{cluster.url}/state/stores/{cluster.store}"


def _lives(table: Table, app: Peer, cluster: PodCluster) -> None:
    """Measures the first load of both stores, and their starts after SIGKILL."""
    app.start(ROWS)
    theirs_s = app.ingested()
    theirs_cpu = ROWS / cpu_seconds(app.pid)
    app.kill()
    theirs = _returned(app.start, _peer_path(app))
    made = list(batches(ROWS, PARTITIONS))
    loader = Loader(cluster.metadata)
    cpu_s, began_s = cpu_seconds(_pid(cluster)), time.perf_counter()
    for slices in made:
        loader.write(slices)
    ours_s = ROWS / (time.perf_counter() - began_s)
    ours_cpu = ROWS / (cpu_seconds(_pid(cluster)) - cpu_s)
    pod = cluster.pods[0]
    pod.kill()
    ours = _returned(pod.launch, _pod_path(cluster))
    wait_until(lambda: (report := pod.report()) and report.ready)
    table.add(
        "ingest, exactly once, rows/s",
        *(f"{theirs_s:,.0f} ({theirs_cpu:,.0f} per CPU s)", f"{ours_s:,.0f} ({ours_cpu:,.0f})"),
        f"{ours_s / theirs_s:.1f} ({ours_cpu / theirs_cpu:.1f})",
    )
    table.add(
        f"start after SIGKILL until {len(probes(ROWS))} keys are right, s",
        *(f"{one.seconds:.2f}, wrong answers before: {one.wrong}" for one in (theirs, ours)),
        f"{theirs.seconds / ours.seconds:.0f}",
    )


def _returned(start: Callable[[], object], path: str) -> Return:
    """Starts a server, and asks for one key after the other until each answer is right."""
    left = [(f"{path}/{key}", value) for key, value in probes(ROWS)]
    seen: Counter[str] = Counter()
    began_s = time.perf_counter()
    start()

    def all_right() -> bool:
        while left:
            url, value = left[-1]
            answer = _answer(url, value)
            seen[answer] += 1
            if answer != "right":
                return False
            left.pop()
        return True

    wait_until(all_right, _ANSWERS_S)
    return Return(time.perf_counter() - began_s, seen["wrong"])


def _answer(url: str, value: bytes) -> str:
    """Whether an answer is right, wrong (another value, or that the key is absent), or none."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            found = base64.b64decode(json.load(answer)["value"])
    except urllib.error.HTTPError as error:
        return "wrong" if error.code == 404 else "none"
    except OSError:
        return "none"
    return "right" if found == value else "wrong"


def _same_ranges(theirs: str, ours: str) -> None:
    """Checks that both servers have the same rows in the same ranges."""
    for low, high in ranges(ROWS)[:_COMPARED]:
        asked = f"?from={low}&to={high}"
        assert _rows(theirs + asked) == _rows(ours + asked), asked


def _rows(url: str) -> list[tuple[str, str]]:
    request = urllib.request.Request(url, headers={"Accept": "application/x-ndjson"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        rows = [json.loads(line) for line in answer if b'"key"' in line]
    return sorted((row["key"], row["value"]) for row in rows)


_PEER_PATHS = ("/state/stores/kv", "/state/stores/kv/multiget", "/state/stores/kv")


def _pod_paths(store: str) -> tuple[str, str, str]:
    """The paths of rows by key and by bounds, of a batch get, and of all rows."""
    path = f"/state/stores/{store}"
    return path, f"/state/get/{store}", f"{path}?limit={ROWS}"


def _works(directory: Path, pid: int, url: str, paths: tuple[str, str, str]) -> Works:
    path, batch_get, scan = paths
    keys = directory / "keys.txt"
    return {
        "GET": wrk(pid, url, "get.lua", f"{path}/", keys),
        "get of 100 keys": wrk(pid, url, "multiget.lua", batch_get, keys),
        "range of about 100 rows": wrk(pid, url, "range.lua", path, directory / "ranges.txt"),
        "full scan": Scan(f"{url}{scan}", pid, ROWS, directory / "answer"),
    }


def _redis_works(directory: Path, port: int, pid: int) -> Works:
    command = (str(directory / "resp_bench"), str(port))
    load = (str(directory / "keys.txt"), "32", "SECONDS")
    return {
        "GET": Load((*command, "get", *load), pid),
        "get of 100 keys": Load((*command, "mget", *load), pid),
        "full scan": CommandScan((*command, "scan"), pid, ROWS),
    }


def _compare(servers: dict[str, Works], core: int) -> tuple[Table, list[Figure]]:
    columns = ("work for each CPU second of the server", *("Kafka Streams", "store pod"))
    table = Table("reads", (*columns, "ratio", "Redis"))
    figures = []
    for work, target in _TARGETS.items():
        found = _in_turn({name: one[work] for name, one in servers.items() if work in one}, core)
        theirs, ours = found["peer"], found["pod"]
        ratio = ours.per_cpu_s / theirs.per_cpu_s
        name = work + (f", {_UNITS[work]}" if work in _UNITS else "")
        redis = _told(found["redis"]) if "redis" in found else "-"
        table.add(name, _told(theirs), _told(ours), f"{ratio:.2f}", redis)
        detail = f"{ours.per_cpu_s:,.0f} / {theirs.per_cpu_s:,.0f} a CPU second"
        figures.append(
            Figure(
                name=f"{work} / Kafka Streams",
                value=ratio,
                unit="x",
                at_least=target,
                detail=detail,
            )
        )
    return table, figures


def _in_turn(works: Works, core: int) -> dict[str, Measured]:
    for name, one in works.items():
        one.run(_WARM_PEER_S if name == "peer" else _WARM_S, core)
    runs: dict[str, list[Measured]] = {name: [] for name in works}
    for _ in range(_ROUNDS):
        for name, one in works.items():
            runs[name].append(one.run(_SECONDS, core))
    return {name: middle(some) for name, some in runs.items()}


def _told(one: Measured) -> str:
    rate = f"{one.per_cpu_s:,.0f}"
    return f"{rate} (p50 {one.p50_ms:.1f}, p99 {one.p99_ms:.1f} ms)" if one.p99_ms else rate
