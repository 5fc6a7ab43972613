"""Measures the time from `kill -9` until a pod serves, against opening a plain RocksDB."""

import subprocess
import sys
import time
from pathlib import Path

from rocksdict import Rdict

from qss_bench.loads.bare import fill
from qss_bench.loads.rows import VALUE_BYTES, load, make_keys
from qss_bench.report import Figure
from qss_client.clock import SystemClock
from qss_testing.pods.pod_process import PodCluster

KEYS = 1_000_000
ROUNDS = 3
_OPEN_PLAIN = (
    "import sys, time; from qss_bench.loads.bare import open_plain; started = time.perf_counter(); "
    "db = open_plain(sys.argv[1]); db.get(b'x'); print(time.perf_counter() - started)"
)
_OPEN_POD = (
    "import asyncio, sys, time; from qss_bench.pod.recovery import open_pod; "
    "print(asyncio.run(open_pod(sys.argv[1])))"
)


def measure(directory: Path) -> list[Figure]:
    """Both are killed with a full write-ahead log, then opened in new processes."""
    keys = make_keys(KEYS)
    with PodCluster(directory / "recovery", partitions=1, value_serde="bytes") as cluster:
        load(cluster.metadata, keys)
        volume = cluster.pods[0].volume
        cluster.pods[0].kill()
        _fill_and_die(str(directory / "plain1m"))
        ratios, pairs = [], []
        for number in range(ROUNDS):
            ours = _timed(_OPEN_POD, _copy(volume, directory / f"pod{number}"))
            theirs = _timed(_OPEN_PLAIN, _copy(directory / "plain1m", directory / f"p{number}"))
            ratios.append(ours / theirs)
            pairs.append((ours, theirs))
    ours, theirs = pairs[ratios.index(sorted(ratios)[len(ratios) // 2])]
    return [
        Figure(
            name="recovery after kill -9, 1 M keys / plain open",
            value=ours / theirs,
            unit="x",
            at_most=3.0,
            detail=f"{ours * 1000:.0f} / {theirs * 1000:.0f} ms",
        )
    ]


def _fill_and_die(path: str) -> None:
    """Fills a plain database in a process that is killed like the pod's."""
    program = (
        "import os, sys; from qss_bench.pod import recovery; "
        "db = recovery.fill_plain(sys.argv[1]); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", program, path], check=False)


def fill_plain(path: str) -> Rdict:
    """The same rows; RocksDB leaves part of them in the write-ahead log."""
    return fill(path, make_keys(KEYS), b"v" * VALUE_BYTES)


def _copy(source: Path, target: Path) -> str:
    subprocess.run(["cp", "-r", str(source), str(target)], check=True)
    return str(target)


def _timed(program: str, path: str) -> float:
    ended = subprocess.run(
        [sys.executable, "-c", program, path], check=True, capture_output=True, text=True
    )
    return float(ended.stdout.split()[-1])


async def open_pod(volume: str) -> float:
    """Seconds from nothing to serving."""
    from qss_core.model import Ordinal, StoreName
    from qss_store.replicas.pod_context import PodConfig
    from qss_store.runtime.peer_client import Peers, PeerSession
    from qss_store.storage.rocksdb.database import RocksDbEngine
    from qss_store.storage.rocksdb.memory_budget import MemoryBudget
    from qss_store.writes.pod_services import build_pod

    budget = MemoryBudget.of(cache_bytes=256 << 20, write_buffer_bytes=256 << 20)
    started = time.perf_counter()
    config = PodConfig(
        store=StoreName("words"), ordinal=Ordinal(0), directory=Path(volume), incarnation="bench"
    )
    peers = Peers(PeerSession())
    pod = build_pod(config, peers, SystemClock(), lambda path: RocksDbEngine(path, budget)).pod
    await pod.start()
    assert pod.is_ready
    took_s = time.perf_counter() - started
    await pod.close()
    return took_s
