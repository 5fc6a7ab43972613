"""Measures GET and scan while a store's rows change their format, against a store at rest."""

import http.client
import time
from pathlib import Path
from statistics import median

import msgspec

from qss_bench.loads.load import run_load
from qss_bench.loads.rows import load, make_keys
from qss_bench.reads import reopen
from qss_bench.report import Figure
from qss_testing.pods.pod_process import PodCluster, PodProcess
from qss_testing.waiting import wait_until

ROWS = 1_000_000
SCANNED = 100_000
ASKED = 20_000
CONNECTIONS = 16
SECONDS = 3.0
SCANS = 5


def measure(directory: Path) -> list[Figure]:
    """Both figures, in wall time: a migration uses a part of the server's time.

    The store at rest has the new format, so that both stores give the same answers.
    """
    keys = make_keys(ROWS)
    with PodCluster(directory / "rest", partitions=1, value_serde="bytes") as cluster:
        load(cluster.metadata, keys)
        reopen(cluster)
        scan, get = _scans_per_s(cluster), _gets_per_s(cluster, keys)
    with PodCluster(
        directory / "moving", partitions=1, value_serde="bytes", format="Plain"
    ) as cluster:
        load(cluster.metadata, keys)
        reopen(cluster)
        change_format(cluster, "Timestamped")
        (pod,) = cluster.pods
        scan_meanwhile, get_meanwhile = _scans_per_s(cluster), _gets_per_s(cluster, keys)
        left = _rows_left(pod)
        assert left, "the migration ended before it was measured"
        moved_per_s = _moved_per_s(pod)
    return [
        Figure(
            name="scan 100 000 rows while rows migrate / at rest",
            value=scan_meanwhile / scan,
            unit="x",
            at_least=0.5,
            detail=f"{scan_meanwhile * SCANNED:,.0f} / {scan * SCANNED:,.0f} rows/s",
        ),
        Figure(
            name="GET while rows migrate / at rest",
            value=get_meanwhile / get,
            unit="x",
            at_least=0.5,
            detail=f"{get_meanwhile:,.0f} / {get:,.0f} a second; {moved_per_s:,.0f} rows/s moved "
            "with nobody asking",
        ),
    ]


def change_format(cluster: PodCluster, row_format: str) -> None:
    """Changes the format like the operator."""
    definition = msgspec.structs.replace(cluster.assignment.definition, format=row_format)
    cluster.assignment = msgspec.structs.replace(cluster.assignment, definition=definition)
    cluster.assign(cluster.pods[0])


def _rows_left(pod: PodProcess) -> int:
    report = pod.report()
    assert report is not None
    return sum(one.migration.rows_left for one in report.replicas if one.migration)


def _moved_per_s(pod: PodProcess) -> float:
    """Rows moved per second, until the end or for the measured time."""
    started, before = time.monotonic(), _rows_left(pod)
    wait_until(lambda: not _rows_left(pod) or time.monotonic() - started > SECONDS)
    return (before - _rows_left(pod)) / (time.monotonic() - started)


def _gets_per_s(cluster: PodCluster, keys: list[bytes]) -> float:
    (pod,) = cluster.pods
    assert pod.process is not None
    path = f"/state/stores/{cluster.store}/"
    heads = [
        f"GET {path}{key.decode()} HTTP/1.1\r\nHost: bench\r\nAccept: */*\r\n\r\n".encode()
        for key in keys[:: ROWS // ASKED]
    ]
    return run_load(
        pod.ports[0], heads, pid=pod.process.pid, connections=CONNECTIONS, seconds=SECONDS
    ).per_second


def _scans_per_s(cluster: PodCluster) -> float:
    connection = http.client.HTTPConnection("127.0.0.1", cluster.pods[0].ports[0])
    took = []
    for _ in range(SCANS):
        started = time.monotonic()
        path = f"/state/stores/{cluster.store}?limit={SCANNED}"
        connection.request("GET", path, headers={"Accept": "application/x-ndjson"})
        answer = connection.getresponse()
        assert answer.status == 200
        while answer.read(1 << 20):
            pass
        took.append(time.monotonic() - started)
    connection.close()
    return 1 / median(took)
