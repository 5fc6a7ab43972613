"""Measures GET and batch get against bare rocksdict."""

import json
import subprocess
import sys
import time
from pathlib import Path

from qss_bench.loads.bare import fill, open_plain
from qss_bench.loads.load import run_load
from qss_bench.loads.rows import VALUE_BYTES, load, make_keys
from qss_bench.report import Figure
from qss_testing.pods.pod_process import PodCluster
from qss_testing.pods.ports import free_ports
from qss_testing.waiting import wait_until

KEYS = 1_000_000
ASKED = 20_000
CONNECTIONS = 32
SECONDS = 3.0
ROUNDS = 3
BATCH = 100


def measure(directory: Path) -> list[Figure]:
    keys = make_keys(KEYS)
    fill(str(directory / "plain"), keys, b"v" * VALUE_BYTES).close()
    with PodCluster(directory / "get", partitions=1, value_serde="bytes") as cluster:
        load(cluster.metadata, keys)
        reopen(cluster)
        get = measure_get(directory, cluster, keys)
    with PodCluster(directory / "many", partitions=4, value_serde="bytes") as cluster:
        load(cluster.metadata, keys)
        reopen(cluster)
        many = measure_many(directory, cluster, keys)
    return [get, many]


def reopen(cluster: PodCluster) -> None:
    """Restarts the pod, so that its rows are in files, not in memtables, like the baseline's."""
    pod = cluster.pods[0]
    pod.stop()
    pod.start()
    wait_until(lambda: (report := pod.report()) and report.ready)


def measure_get(directory: Path, cluster: PodCluster, keys: list[bytes]) -> Figure:
    """Requests per CPU second of the pod and of the bare server, in turn."""
    port = free_ports(1)[0]
    bare = subprocess.Popen(
        [sys.executable, "-m", "qss_bench.loads.bare", str(directory / "plain"), str(port)]
    )
    try:
        wait_until(lambda: _listens(port))
        pod = cluster.pods[0]
        assert pod.process is not None
        asked = keys[:: KEYS // ASKED]
        ours, theirs = [], []
        for _ in range(ROUNDS):
            ours.append(
                run_load(
                    pod.ports[0],
                    [head(f"/state/stores/{cluster.store}/{key.decode()}") for key in asked],
                    pid=pod.process.pid,
                    connections=CONNECTIONS,
                    seconds=SECONDS,
                )
            )
            theirs.append(
                run_load(
                    port,
                    [head(f"/{key.decode()}") for key in asked],
                    pid=bare.pid,
                    connections=CONNECTIONS,
                    seconds=SECONDS,
                )
            )
    finally:
        bare.kill()
        bare.wait()
    ratios = [a.per_cpu_second / b.per_cpu_second for a, b in zip(ours, theirs, strict=True)]
    best = max(ours, key=lambda one: one.per_cpu_second)
    limit = max(theirs, key=lambda one: one.per_cpu_second)
    return Figure(
        name="GET, 32 connections / bare protocol",
        value=sorted(ratios)[len(ratios) // 2],
        unit="x",
        at_least=0.5,
        detail=f"{best.per_cpu_second:,.0f} / {limit.per_cpu_second:,.0f} a CPU s; p50 "
        f"{best.percentile(0.5) * 1000:.2f} ms, p99 {best.percentile(0.99) * 1000:.2f} ms",
    )


def measure_many(directory: Path, cluster: PodCluster, keys: list[bytes]) -> Figure:
    """Keys per CPU second: batch gets over HTTP, and bare list gets in this thread."""
    pod = cluster.pods[0]
    assert pod.process is not None
    groups = [keys[start : start + BATCH] for start in range(0, ASKED * 5, BATCH)]
    heads = [
        _post(f"/state/get/{cluster.store}", {"keys": [key.decode() for key in group]})
        for group in groups
    ]
    ratios = []
    detail = ""
    for _ in range(ROUNDS):
        ours = run_load(pod.ports[0], heads, pid=pod.process.pid, connections=16, seconds=SECONDS)
        per_cpu_s = ours.per_cpu_second * BATCH
        theirs = _bare_keys_per_s(str(directory / "plain"), groups)
        ratios.append(per_cpu_s / theirs)
        detail = f"{per_cpu_s:,.0f} / {theirs:,.0f} keys a CPU s"
    return Figure(
        name="batch get 100, 4 partitions / bare list get",
        value=sorted(ratios)[len(ratios) // 2],
        unit="x",
        at_least=0.5,
        detail=detail,
    )


def _bare_keys_per_s(directory: str, groups: list[list[bytes]]) -> float:
    db = open_plain(directory)
    for group in groups:
        db.get([*group])
    started = time.thread_time()
    for group in groups:
        db.get([*group])
    took_s = time.thread_time() - started
    db.close()
    return len(groups) * BATCH / took_s


def head(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: bench\r\nAccept: */*\r\n\r\n".encode()


def _post(path: str, body: object) -> bytes:
    data = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: bench\r\nAccept: */*\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    )
    return head.encode() + data


def _listens(port: int) -> bool:
    import socket

    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
