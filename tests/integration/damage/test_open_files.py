"""A pod runs out of open files: its partitions recover by themselves when it has files again."""

import os
import resource
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from qss_client import Store
from qss_testing.pods.pod_process import PodCluster, PodProcess
from qss_testing.waiting import wait_until
from qss_testing.writers.writer import Record, Writer


def limit_files(pod: PodProcess, more: int | None) -> tuple[int, int]:
    """Lets a pod open so many more files; None: its first limit."""
    assert pod.process is not None
    pid = pod.process.pid
    held = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    if more is not None:
        used = 1 + max(int(name) for name in os.listdir(f"/proc/{pid}/fd"))
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (used + more, held[1]))
    return held


def write_a_lot(url: str, store: str, is_over: threading.Event) -> int:
    """Writes batches that need new files until the event is set; returns their number."""
    with Writer(url, store) as writer:
        number = 0
        while not is_over.is_set():
            writer.write([Record(f"k{number % 50}", f"{number} " + "x" * 2_000_000)])
            number += 1
        return number


def test_partitions_that_stopped_for_want_of_files_go_on_by_themselves(tmp_path: Path) -> None:
    environment = {"QSS_WRITE_BUFFER_BYTES": "4194304"}
    is_over = threading.Event()
    with (
        PodCluster(tmp_path, partitions=2, environment=environment) as cluster,
        ThreadPoolExecutor(1) as pool,
    ):
        pod = cluster.pods[0]
        held = limit_files(pod, 4)  # As many as a request needs, and no more.
        writing = pool.submit(write_a_lot, pod.internal, cluster.store, is_over)
        wait_until(lambda: "Too many open files" in pod.log())
        assert pod.process is not None
        resource.prlimit(pod.process.pid, resource.RLIMIT_NOFILE, held)
        wait_until(lambda: (report := pod.report()) is not None and report.ready)
        is_over.set()
        written = writing.result()  # The job continued, too.
        with Store(cluster.url, cluster.store) as store:
            for number in range(max(0, written - 50), written):
                row = store.get(f"k{number % 50}")
                assert row is not None
                assert row.value.split()[0] == str(number), "what was acknowledged is there"
