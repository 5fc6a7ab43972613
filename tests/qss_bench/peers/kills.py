"""Kills the driver of a query in the middle of batches, and counts what a reader then finds.

Every batch has each of the keys once, so after batch N each key counts N + 1. Where the sum of all
counts has grown by less than a batch, a reader sees a part of it; a key that counts more than the
batches at the end was counted twice.
"""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from threading import Event

import psycopg
import redis

from qss_bench.mirrored.side import BATCH_S, START_S, Program, tell
from qss_bench.peers.query import SINKS, STORE
from qss_bench.peers.servers import postgres_server, redis_server
from qss_bench.peers.tables import Table
from qss_bench.report import Figure
from qss_client import Store
from qss_testing.pods.pod_process import PodCluster
from qss_testing.waiting import wait_until

NEEDS = {"postgres", "initdb", "redis-server", "setpriv"}
KEYS = 100_000
KILLS = 5
_WHOLE = 4  # Batches before the first kill, which say how long the sink writes.
_PARTITIONS = 12
_SETTLE_S = 1.0  # What the servers had received before the kill is done by then.
_WROTE = re.compile(r"wrote (\d+) (\d+)")
Counts = Counter[int]


@dataclass(frozen=True, slots=True)
class Target:
    """A sink's server: where it is, and the number of keys for each count that it holds."""

    place: str
    read: Callable[[], Counts]


@dataclass(slots=True)
class Outcome:
    """What readers found: rows of unfinished batches after each kill, and the counts at the end."""

    unfinished: list[int]
    doubled: int = 0
    lost: int = 0


def measure(directory: Path) -> tuple[list[Table], list[Figure]]:
    """Kills each sink's driver so many times, at moments spread over the time of its writing."""
    columns = ("sink", "kills after which a reader saw a part of a batch", "rows of such parts")
    table = Table("kills", (*columns, "rows counted twice at the end", "rows lost"))
    figures = []
    for number, name in enumerate(SINKS):
        here = directory / str(number)
        here.mkdir()
        with _target(name, here) as target:
            found = _strike(name, target, here)
        parts = [rows for rows in found.unfinished if rows]
        table.add(
            name,
            f"{len(parts)} of {KILLS}",
            ", ".join(f"{rows:,}" for rows in parts) or "0",
            f"{found.doubled:,}",
            f"{found.lost:,}",
        )
        if name == "store":
            wrong = len(parts) + found.doubled + found.lost
            title = "parts of batches, doubled and lost rows after kills"
            figures.append(
                Figure(name=title, value=wrong, unit="", at_most=0, detail=f"{KILLS} kills")
            )
    return [table], figures


@contextmanager
def _target(name: str, directory: Path) -> Iterator[Target]:
    if name == "store":
        with PodCluster(directory / "pods", partitions=_PARTITIONS, store=STORE) as cluster:
            yield Target(cluster.url, lambda: _of_store(cluster.url))
    elif name == "PostgreSQL":
        with postgres_server(directory / "postgres") as place:
            yield Target(place, lambda: _of_postgres(place))
    else:
        with redis_server(directory / "redis") as (port, _):
            yield Target(str(port), lambda: _of_redis(port))


def _of_store(url: str) -> Counts:
    with Store(url, STORE) as store:
        return Counter(int(row.value) for row in store.prefix(""))


def _of_postgres(place: str) -> Counts:
    with psycopg.connect(place) as connection:
        return Counter(value for (value,) in connection.execute("SELECT value FROM counts"))


def _of_redis(port: int) -> Counts:
    with redis.Redis(port=port) as connection:
        keys = list(connection.scan_iter(count=1_000))
        return Counter(int(value) for value in connection.mget(keys) if value is not None)


def _strike(name: str, target: Target, directory: Path) -> Outcome:
    """Kills the driver in batches that follow each other; a last run ends the last of them."""
    source, checkpoint = directory / "in", directory / "checkpoint"
    source.mkdir()
    command = ["qss_bench.peers.query", name, target.place, str(source), str(checkpoint)]
    outcome, write_s = Outcome([]), 0.0
    for batch in range(_WHOLE):
        _put(source, batch)
    for batch in range(_WHOLE, _WHOLE + KILLS):
        program = Program(command)
        try:
            _await_commit(checkpoint, batch - 1)
            write_s = write_s or _write_seconds(program)
            before = _rows(target.read())
            _put(source, batch)
            program.wait_for(f"begins {batch}", START_S)
            Event().wait(write_s * (batch - _WHOLE + 0.5) / KILLS)
        finally:
            program.kill()
        Event().wait(_SETTLE_S)
        outcome.unfinished.append((_rows(target.read()) - before) % KEYS)
    program = Program(command)
    try:
        _await_commit(checkpoint, _WHOLE + KILLS - 1)
    finally:
        program.kill()
    _judge(outcome, target.read(), _WHOLE + KILLS)
    tell(f"{name}: a batch is written in {write_s * 1000:.0f} ms")
    return outcome


def _put(directory: Path, batch: int) -> None:
    """Adds a file with all keys, which Spark reads as the next batch."""
    draft = directory / f".{batch}"
    draft.write_text("".join(f'{{"k":"k{number:06d}"}}\n' for number in range(KEYS)))
    os.utime(draft, (1_000_000 + batch, 1_000_000 + batch))
    draft.replace(directory / f"{batch:06d}.json")


def _await_commit(checkpoint: Path, batch: int) -> None:
    wait_until((checkpoint / "commits" / str(batch)).exists, START_S + BATCH_S)


def _judge(outcome: Outcome, end: Counts, batches: int) -> None:
    """Compares the counts at the end with the number of batches."""
    outcome.doubled = sum(
        (count - batches) * keys for count, keys in end.items() if count > batches
    )
    missing = sum((batches - count) * keys for count, keys in end.items() if count < batches)
    outcome.lost = missing + (KEYS - end.total()) * batches


def _rows(counts: Counts) -> int:
    """The rows of all batches that a reader sees."""
    return sum(count * keys for count, keys in counts.items())


def _write_seconds(program: Program) -> float:
    """The median time of a batch's write, of batches after the first two."""
    program.wait_for(f"wrote {_WHOLE - 1}", START_S)
    found = [_WROTE.match(line) for line in list(program.lines)]
    return median(int(one[2]) / 1000 for one in found if one and int(one[1]) >= 2)
