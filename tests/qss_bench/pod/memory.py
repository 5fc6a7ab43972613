"""Measures the most memory of a pod with many rows while it answers questions and takes rows."""

import http.client
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from qss_bench.ingest import CHUNK_ROWS, ROWS_PER_S
from qss_bench.loads.load import run_load
from qss_bench.loads.rows import Loader, make_keys, make_slices
from qss_bench.reads import head
from qss_bench.report import Figure
from qss_testing.pods.pod_process import PodCluster, PodProcess

ROWS = 10_000_000
PARTITIONS = 12
BATCH_ROWS = 50_000
ASKED_S = 60.0
READERS = 8
KEYS_ASKED = 2_000
_BYTES_MAX = 1_000_000_000


def measure(directory: Path) -> list[Figure]:
    """The peak while the rows are written, and the peak of all until the questions have ended."""
    with PodCluster(directory / "memory", partitions=PARTITIONS, value_serde="bytes") as cluster:
        keys: list[bytes] = []
        loader = Loader(cluster.metadata)
        for number in range(ROWS // BATCH_ROWS):
            batch = make_keys(BATCH_ROWS, seed=number)
            loader.write(make_slices(batch, PARTITIONS))
            keys += batch[:: ROWS // BATCH_ROWS]
        pod = cluster.pods[0]
        written = peak_bytes(pod)
        asked = Asked(cluster, loader, keys[:KEYS_ASKED]).run()
        return [
            Figure(
                name="peak memory of a pod, 10 M rows in 12 partitions",
                value=peak_bytes(pod) / 1e6,
                unit="MB",
                at_most=_BYTES_MAX / 1e6,
                detail=f"{written / 1e6:,.0f} MB after the rows were written; then {asked}",
            )
        ]


def peak_bytes(pod: PodProcess) -> int:
    """The most resident memory that the pod's process has had, in bytes."""
    assert pod.process is not None
    found = re.search(r"^VmHWM:\s+(\d+) kB$", _status(pod.process.pid), re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


def _status(pid: int) -> str:
    return Path(f"/proc/{pid}/status").read_text()


class Asked:
    """Questions of all kinds and rows, at once; each kind is repeated until the time is over."""

    def __init__(self, cluster: PodCluster, loader: Loader, keys: list[bytes]) -> None:
        self._pod, self._loader = cluster.pods[0], loader
        self._path = f"/state/stores/{cluster.store}"
        self._gets = [head(f"{self._path}/{key.decode()}") for key in keys]
        froms = sorted(keys)[:: len(keys) // 100]
        self._ranges = [head(f"{self._path}?from={key.decode()}&limit=100") for key in froms]
        self._batches = [make_slices(make_keys(CHUNK_ROWS, seed=n), PARTITIONS) for n in range(20)]

    def run(self) -> str:
        """Asks and writes for a minute; returns how much of each kind was done."""
        work: dict[str, Callable[[], int]] = {
            "gets": lambda: self._send(self._gets),
            "ranges of 100 rows": lambda: self._send(self._ranges),
            "scans": lambda: self._scan("application/x-ndjson"),
            "scans in Arrow": lambda: self._scan("application/vnd.apache.arrow.stream"),
            "rows written": self._write,
        }
        ends_s = time.monotonic() + ASKED_S
        with ThreadPoolExecutor(len(work)) as threads:
            tasks = [threads.submit(_repeated, one, ends_s) for one in work.values()]
            return ", ".join(
                f"{task.result():,} {what}" for what, task in zip(work, tasks, strict=True)
            )

    def _send(self, heads: list[bytes]) -> int:
        assert self._pod.process is not None
        pid, port = self._pod.process.pid, self._pod.ports[0]
        return run_load(port, heads, pid=pid, connections=READERS, seconds=ASKED_S / 4).requests

    def _scan(self, accept: str) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self._pod.ports[0], timeout=300.0)
        connection.request("GET", self._path, headers={"Accept": accept})
        answer = connection.getresponse()
        assert answer.status == 200, answer.status
        part = bytearray(1024 * 1024)
        while answer.readinto(part):  # All rows would need more memory than the pod.
            pass
        connection.close()
        return 1

    def _write(self) -> int:
        """Writes at the rate, or as fast as the pod accepts the rows."""
        rows = len(self._batches) * CHUNK_ROWS
        due_s = time.monotonic() + rows / ROWS_PER_S
        for slices in self._batches:
            self._loader.write(slices)
        time.sleep(max(0.0, due_s - time.monotonic()))  # noqa: TID251 a load has a rate.
        return rows


def _repeated(work: Callable[[], int], ends_s: float) -> int:
    done = 0
    while time.monotonic() < ends_s:
        done += work()
    return done
