"""Measures the pod during a siege: its process, probes and partitions, and a writer's batches."""

import http.client
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from qss_core.errors import StoreError
from qss_siege.target import HOST, SMALL_BYTES, small_key
from qss_testing.pods.pod_process import PodProcess
from qss_testing.writers.writer import Record, Writer

PROBE_TIMEOUT_S = 5.0  # As in the pod template.
_PROBE_EACH_S = 1.0  # More often than any kubelet.
_BATCH_ROWS = 100
_WRITE_EACH_S = 0.25
_LOOK_EACH_S = 0.2


class Watch:
    """A measurement that a thread of its own repeats."""

    def __init__(self, look: Callable[[], None], each_s: float) -> None:
        self._look = look
        self._each_s = each_s
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self._is_over.is_set():
            began = time.monotonic()
            self._look()
            self._is_over.wait(max(0.0, self._each_s - (time.monotonic() - began)))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()


def status_of(pid: int, what: str) -> int:
    """A line of /proc/PID/status, in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{what}:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"the system tells no {what}")


@dataclass(slots=True)
class Probes:
    """The kubelet's probes, from the pod's own address: `/livez` and `/readyz`."""

    port: int
    asked: int = 0
    slowest_s: float = 0.0
    lost: list[str] = field(default_factory=list)

    def look(self) -> None:
        """Sends each probe once, on a new connection."""
        for path in ("/livez", "/readyz"):
            began = time.monotonic()
            self.asked += 1
            if (failure := self._ask(path)) is not None:
                self.lost.append(f"{path}: {failure}")
            self.slowest_s = max(self.slowest_s, time.monotonic() - began)

    def _ask(self, path: str) -> str | None:
        connection = http.client.HTTPConnection(HOST, self.port, timeout=PROBE_TIMEOUT_S)
        try:
            connection.request("GET", path)
            status = connection.getresponse().status
        except (OSError, http.client.HTTPException) as error:
            return type(error).__name__
        finally:
            connection.close()
        return None if status == 200 else str(status)


@dataclass(slots=True)
class Partitions:
    """The pod's partitions, as the operator sees them."""

    pod: PodProcess
    reports: int = 0
    stopped: set[int] = field(default_factory=set)

    def look(self) -> None:
        """Notes partitions that do not serve."""
        report = self.pod.report()
        if report is None:
            return
        self.reports += 1
        served = [one for one in report.replicas if one.state == "serving"]
        named = {int(one.configuration.partition) for one in report.replicas}
        self.stopped |= named - {int(one.configuration.partition) for one in served}
        self.stopped |= {int(one.partition) for one in report.lost}


@dataclass(slots=True)
class OpenFiles:
    """The number of files that the pod has open, and its maximum."""

    pid: int
    most: int = 0

    def look(self) -> None:
        self.most = max(self.most, len(os.listdir(f"/proc/{self.pid}/fd")))


class GoodWriter:
    """Writes batches of small values to the same keys."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._turn = 0
        self.took_s: list[float] = []
        self.failures: list[str] = []

    def look(self) -> None:
        first = self._turn * _BATCH_ROWS
        self._turn = (self._turn + 1) % 100
        rows = [
            Record(small_key(number), "v" * SMALL_BYTES)
            for number in range(first, first + _BATCH_ROWS)
        ]
        began = time.monotonic()
        try:
            self._writer.write(rows)
        except StoreError as error:
            self.failures.append(f"{error.code}: {error.message}")
        self.took_s.append(time.monotonic() - began)


def watches(
    pod: PodProcess, probes: Probes, partitions: Partitions, files: OpenFiles
) -> list[Watch]:
    """All measurements except the writer."""
    assert pod.process is not None
    return [
        Watch(probes.look, _PROBE_EACH_S),
        Watch(partitions.look, _PROBE_EACH_S),
        Watch(files.look, _LOOK_EACH_S),
    ]


def writing(writer: GoodWriter) -> Watch:
    """The writer: a batch four times a second."""
    return Watch(writer.look, _WRITE_EACH_S)
