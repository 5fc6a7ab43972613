"""Measures how long a writer waits, and whether a read fails, while partitions change hands.

Three pods of a local cluster with one standby and the default times. One thread writes small
batches without a pause, another reads with a deadline of two seconds. A wait is the time between
two acknowledgements of the writer.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from qss_bench.report import Figure
from qss_client import ReadOptions, Store
from qss_core.errors import StoreError
from qss_testing.clients.qss_command import REAL_POD, STORE, Qss, manifest
from qss_testing.waiting import wait_until
from qss_testing.writers.writer import Record, Writer

_PARTITIONS, _PODS = 4, 3
_KEYS = 50
_LEASE_S = 5.0
_FAILOVER_AT_MOST_S = 1.1 * _LEASE_S + 1.0
_PLANNED_AT_MOST_MS = 200.0
_DEADLINE_S = 2.0
_TIMEOUT_S = 120.0


def measure(directory: Path) -> list[Figure]:
    """A roll, handovers, an added and a removed pod, and last a failover."""
    qss = Qss(directory, REAL_POD)
    qss.up(manifest(partitions=_PARTITIONS, replicas=_PODS, standbys=1), timeout_s=_TIMEOUT_S)
    try:
        urls = [pod["query"] for pod in _status(qss)["endpoints"]["pods"]]
        with _Load(urls).running() as load:
            usual = [max(load.during(lambda: _run(qss, "status", STORE))) for _ in range(6)]
            rolled = load.during(lambda: _restart(qss))
            moved = [load.during(lambda one=one: _move(qss, *one)) for one in _moves()]  # type: ignore[misc]
            scaled = load.during(lambda: _scale(qss))
            failed_over = load.during(lambda: _freeze(qss))
        return [*_planned(usual, rolled, moved, scaled), _failover(failed_over), *_reads(load)]
    finally:
        qss.down()


# --- What happens meanwhile


def _restart(qss: Qss) -> None:
    before = set(_processes(qss))
    _run(qss, "restart", STORE)
    wait_until(lambda: not before & set(_processes(qss)) and _is_redundant(qss), _TIMEOUT_S)


def _moves() -> Iterator[tuple[int, int]]:
    """Each partition's active goes to pod 0, to pod 1, and to pod 2."""
    return ((partition, pod) for pod in range(_PODS) for partition in range(_PARTITIONS))


def _move(qss: Qss, partition: int, pod: int) -> None:
    _run(qss, "move", STORE, str(partition), str(pod))
    wait_until(
        lambda: _assignment(qss)[partition]["active"] == pod and _is_redundant(qss), _TIMEOUT_S
    )


def _scale(qss: Qss) -> None:
    for pods in (_PODS + 1, _PODS):
        _run(qss, "scale", STORE, str(pods))
        wait_until(lambda pods=pods: _is_spread(qss, pods), _TIMEOUT_S)  # type: ignore[misc]


def _freeze(qss: Qss) -> None:
    """The pod of all actives stands still for long enough that others take over."""
    frozen = qss.pod(_PODS - 1)
    assert frozen is not None
    os.kill(frozen.pid, signal.SIGSTOP)
    try:
        wait_until(lambda: all(one["active"] != _PODS - 1 for one in _assignment(qss)), _TIMEOUT_S)
    finally:
        os.kill(frozen.pid, signal.SIGCONT)
    wait_until(lambda: _is_redundant(qss), _TIMEOUT_S)


def _run(qss: Qss, *arguments: str) -> None:
    done = qss.run(*arguments)
    assert done.code == 0, done.err


def _processes(qss: Qss) -> list[int]:
    return [process.pid for process in qss.living_pods()]


def _status(qss: Qss) -> dict[str, Any]:
    found: dict[str, Any] = qss.status()["status"]
    return found


def _assignment(qss: Qss) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = _status(qss)["assignment"]
    return found


def _is_redundant(qss: Qss) -> bool:
    return all(
        len(one["inSync"]) == len(one["replicas"]) == 2 for one in _assignment(qss)
    ) and _status(qss)["moving"].startswith("0/")


def _is_spread(qss: Qss, pods: int) -> bool:
    status = _status(qss)
    ordinals = {pod for one in status["assignment"] for pod in one["replicas"]}
    return _is_redundant(qss) and status["replicas"] == pods and ordinals == set(range(pods))


# --- The load


@dataclass(slots=True)
class _Load:
    """A writer and a reader of one store."""

    urls: list[str]
    acknowledged: list[float] = field(default_factory=list)  # Times, in seconds.
    reads: int = 0
    failures: list[str] = field(default_factory=list)
    went_back: int = 0
    _written: int = 0
    _ended: threading.Event = field(default_factory=threading.Event)
    _broken: list[BaseException] = field(default_factory=list)

    @contextmanager
    def running(self) -> Iterator["_Load"]:
        """Write and read inside the block; raises what ended the writer."""
        threads = [threading.Thread(target=self._guarded, args=(run,)) for run in self._runs()]
        for thread in threads:
            thread.start()
        try:
            wait_until(lambda: self._written > 20 or bool(self._broken), _TIMEOUT_S)
            yield self
        finally:
            self._ended.set()
            for thread in threads:
                thread.join()
        if self._broken:
            raise self._broken[0]

    def during(self, change: Callable[[], None]) -> list[float]:
        """The writer's waits in seconds from just before a change to two batches after it."""
        begins = len(self.acknowledged) - 1
        change()
        ends = len(self.acknowledged) + 2
        wait_until(lambda: len(self.acknowledged) > ends or bool(self._broken), _TIMEOUT_S)
        times = self.acknowledged[begins:]
        return [after - before for before, after in pairwise(times)]

    def _runs(self) -> tuple[Callable[[], None], ...]:
        return self._write, self._read

    def _guarded(self, run: Callable[[], None]) -> None:
        try:
            run()
        except BaseException as error:  # noqa: BLE001 `running` raises it.
            self._broken.append(error)

    def _write(self) -> None:
        with Writer(self.urls[0], STORE) as writer:
            while not self._ended.is_set():
                number = self._written
                writer.write([Record(f"k{key}", number) for key in range(_KEYS)])
                self.acknowledged.append(time.monotonic())
                self._written = number + 1

    def _read(self) -> None:
        """Read keys in turn; a client hands its last position on, so no answer may go back."""
        newest: dict[str, int] = {}
        options = ReadOptions(timeout_s=_DEADLINE_S)
        with Store(self.urls, STORE) as store:
            wait_until(lambda: self._written > 0 or bool(self._broken), _TIMEOUT_S)
            while not self._ended.is_set():
                key = f"k{self.reads % _KEYS}"
                self.reads += 1
                try:
                    row = store.get(key, options)
                except StoreError as error:
                    self.failures.append(error.code)
                    continue
                value = -1 if row is None else row.value
                self.went_back += value < newest.get(key, -1)
                newest[key] = max(value, newest.get(key, -1))


# --- Figures


def _planned(
    usual: list[float], rolled: list[float], moved: list[list[float]], scaled: list[float]
) -> Iterator[Figure]:
    longest = [max(waits) for waits in moved]
    yield _pause("longest wait of a writer while only `qss status` is asked", usual)
    yield _pause("longest wait of a writer at a handover", longest)
    yield _pause("longest wait of a writer while all pods restart in turn", rolled)
    yield _pause("longest wait of a writer while a pod is added and removed", scaled)


def _pause(name: str, waits: list[float]) -> Figure:
    return Figure(
        name=name,
        value=1000 * max(waits),
        unit="ms",
        at_most=_PLANNED_AT_MOST_MS,
        detail=f"median {1000 * median(waits):.0f} ms of {len(waits)}",
    )


def _failover(waits: list[float]) -> Figure:
    return Figure(
        name="wait of a writer when the pod of all actives stands still",
        value=max(waits),
        unit="s",
        at_most=_FAILOVER_AT_MOST_S,
        detail=f"leaseDuration {_LEASE_S:g} s",
    )


def _reads(load: _Load) -> Iterator[Figure]:
    yield Figure(
        name="reads that failed meanwhile",
        value=len(load.failures),
        unit="reads",
        at_most=0,
        detail=f"of {load.reads:,}; {', '.join(sorted(set(load.failures))) or 'none'}",
    )
    yield Figure(
        name="answers that went back",
        value=load.went_back,
        unit="reads",
        at_most=0,
        detail=f"of {load.reads:,}",
    )
