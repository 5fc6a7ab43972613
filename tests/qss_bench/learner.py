"""Measures a learner: a copy of 1 GB and its catch-up, and the reads of its pods meanwhile."""

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from qss_bench.ingest import stall_ms
from qss_bench.loads.load import Load, run_load
from qss_bench.loads.rows import load, make_keys
from qss_bench.reads import head
from qss_bench.report import Figure
from qss_bench.scans import cpu_s
from qss_client.http.sync_http import SyncHttp
from qss_core.model import Epoch, Ordinal, StoreSettings
from qss_testing.pods.pod_process import PodCluster, PodProcess
from qss_testing.waiting import wait_until

_ROWS, _LOADED_AT_ONCE = 8_000_000, 500_000
_UNLIMITED = 1 << 40
_RATE = StoreSettings().snapshot_bytes_per_s
_CONNECTIONS, _IDLE_S, _PAUSE_S = 4, 4.0, 0.002
_TIMEOUT_S = 300.0
_RESTING_CPU_S = 0.06  # A second.


def measure(directory: Path) -> list[Figure]:
    """Copies as fast as it goes alone, at the default rate under reads, and both.

    Nobody reads while the first learner is copied: `cp` has the machine for itself, too.
    """
    settings = StoreSettings(snapshot_bytes_per_s=_UNLIMITED)
    cluster = PodCluster(
        directory / "learner", pods=4, partitions=1, value_serde="bytes", settings=settings
    )
    with cluster:
        keys: list[bytes] = []
        for seed in range(_ROWS // _LOADED_AT_ONCE):
            keys = make_keys(_LOADED_AT_ONCE, seed=seed)
            load(cluster.metadata, keys, rows_per_batch=100_000)
        pod = cluster.pods[0]
        _rests(pod)  # Compactions of the load would compete with one of the two copies.
        database = pod.volume / "partitions" / "0"
        copied_s = _copied_s(_links_to(database, directory / "links"), directory / "copy")
        alone = _Seeding(cluster, 1)
        alone()
        heads = [head(f"/state/stores/{cluster.store}/{key.decode()}") for key in keys[:5000]]
        idle = _reads(pod, heads)
        http = SyncHttp()
        for one in (pod, cluster.pods[2]):
            stall_ms(http, one.ops)
        limited = _Seeding(cluster, 2, _RATE)
        busy = _reads(pod, heads, limited)
        stalls = [stall_ms(http, one.ops) for one in (pod, cluster.pods[2])]
        http.close()
        unlimited = _Seeding(cluster, 3)
        busiest = _reads(pod, heads, unlimited)
        held = _bytes_of(database)
    return [
        *_copies(copied_s, alone.took_s, held, limited.took_s),
        *_reads_meanwhile(idle, busy, stalls),
        *_without_a_rate(copied_s / unlimited.took_s, idle, busiest),
    ]


def _copies(copied_s: float, took_s: float, held: int, limited_s: float) -> Iterator[Figure]:
    yield Figure(
        name="learner of 1 GB: cp with its syncs / copy and catch-up",
        value=copied_s / took_s,
        unit="x",
        at_least=0.4,
        detail=f"{copied_s:.1f} / {took_s:.1f} s, {held / 1e9:.2f} GB",
    )
    yield Figure(
        name="rate of a copy under reads, off the rate that is set",
        value=abs(held / limited_s / _RATE - 1),
        unit="x",
        at_most=0.1,
        detail=f"{held / limited_s / 2**20:.0f} of {_RATE / 2**20:.0f} MiB/s",
    )


def _reads_meanwhile(idle: Load, busy: Load, stalls: list[float]) -> Iterator[Figure]:
    yield Figure(
        name="p99 GET while a learner is copied from the same pod / idle",
        value=busy.percentile(0.99) / idle.percentile(0.99),
        unit="x",
        at_most=3.0,
        detail=f"{1000 * busy.percentile(0.99):.2f} / {1000 * idle.percentile(0.99):.2f} ms",
    )
    yield Figure(
        name="longest event-loop stall while a learner is copied",
        value=max(stalls),
        unit="ms",
        at_most=20.0,
        detail=f"from the pod {stalls[0]:.1f} ms, into the pod {stalls[1]:.1f} ms",
    )


def _without_a_rate(of_cp: float, idle: Load, busiest: Load) -> Iterator[Figure]:
    yield Figure(
        name="the same without a rate: cp / copy and catch-up under reads",
        value=of_cp,
        unit="x",
        detail="reported",
    )
    yield Figure(
        name="the same without a rate: p99 GET / idle",
        value=busiest.percentile(0.99) / idle.percentile(0.99),
        unit="x",
        detail=f"{1000 * busiest.percentile(0.99):.2f} ms",
    )


class _Seeding:
    """Gives the partition a learner, and waits until it has caught up."""

    def __init__(self, cluster: PodCluster, pod: int, rate: int = _UNLIMITED) -> None:
        self._cluster = cluster
        self._pod = Ordinal(pod)
        self._rate = rate
        self.took_s = 0.0

    def __call__(self) -> None:
        held = self._cluster.assignment
        (entry,) = held.partitions
        self._cluster.assignment = replace(
            held,
            settings=StoreSettings(snapshot_bytes_per_s=self._rate),
            partitions=(
                replace(entry, epoch=Epoch(entry.epoch + 1), replicas=(*entry.in_sync, self._pod)),
            ),
        )
        started = time.perf_counter()
        for pod in self._cluster.pods:
            self._cluster.assign(pod)
        wait_until(self._has_caught_up, _TIMEOUT_S)
        self.took_s = time.perf_counter() - started

    def _has_caught_up(self) -> bool:
        report = self._cluster.pods[0].report()
        return report is not None and self._pod in report.replicas[0].caught_up


def _reads(pod: PodProcess, heads: list[bytes], meanwhile: _Seeding | None = None) -> Load:
    assert pod.process is not None
    return run_load(
        pod.ports[0],
        heads,
        pid=pod.process.pid,
        connections=_CONNECTIONS,
        seconds=_IDLE_S,
        pause_s=_PAUSE_S,
        meanwhile=meanwhile,
    )


def _rests(pod: PodProcess) -> None:
    """Waits until the pod has used nearly no CPU time for two seconds; it has to by a deadline."""
    assert pod.process is not None
    quiet, before_s = 0, cpu_s(pod.process.pid)
    deadline_s = time.monotonic() + _TIMEOUT_S
    while quiet < 2:
        assert time.monotonic() < deadline_s, f"the pod computes after {_TIMEOUT_S:.0f} s"
        time.sleep(1.0)  # noqa: TID251 the CPU time of a second is measured.
        used_s = cpu_s(pod.process.pid)
        quiet = quiet + 1 if used_s - before_s < _RESTING_CPU_S else 0
        before_s = used_s


def _links_to(source: Path, target: Path) -> Path:
    """Links to the database's files, which stay when compactions replace them."""
    target.mkdir()
    for file in source.iterdir():
        with suppress(FileNotFoundError):
            os.link(file, target / file.name)
    return target


def _copied_s(source: Path, target: Path) -> float:
    """The seconds that a copy of the files with their syncs takes."""
    started = time.perf_counter()
    shutil.copytree(source, target)
    for file in target.iterdir():
        with file.open("rb") as opened:
            os.fsync(opened.fileno())
    took_s = time.perf_counter() - started
    shutil.rmtree(target)
    return took_s


def _bytes_of(directory: Path) -> int:
    return sum(file.stat().st_size for file in directory.iterdir())
