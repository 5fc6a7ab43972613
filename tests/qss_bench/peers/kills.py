"""Kills the driver of a query in the middle of batches, and counts what a reader then finds.

Every batch has each of the keys once, so after batch N each key counts N + 1. A reader that finds
two counts sees a part of a batch; a key that counts more than the batches at the end was counted
twice.
"""

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
    """Kills the driver in batches that follow each other, and lets the last run end the input."""
    batches = _WHOLE + KILLS + 1
    source, checkpoint = directory / "in", directory / "checkpoint"
    _write_input(source, batches)
    command = ["qss_bench.peers.query", name, target.place, str(source), str(checkpoint)]
    outcome, write_s, begun = Outcome([]), 0.0, _WHOLE
    for number in range(KILLS):
        program = Program(command)
        try:
            if not number:
                write_s = _write_seconds(program)
            program.wait_for(f"begins {begun}", START_S)
            Event().wait(write_s * (number + 0.5) / KILLS)
        finally:
            program.kill()
        Event().wait(_SETTLE_S)
        outcome.unfinished.append(_unfinished(target.read()))
        begun += 1
    program = Program(command)
    try:
        wait_until((checkpoint / "commits" / str(batches - 1)).exists, START_S + BATCH_S)
    finally:
        program.kill()
    end = target.read()
    outcome.doubled = sum(
        keys * (count - batches) for count, keys in end.items() if count > batches
    )
    outcome.lost = KEYS * batches + outcome.doubled - sum(n * keys for n, keys in end.items())
    tell(f"{name}: a batch is written in {write_s * 1000:.0f} ms")
    return outcome


def _write_input(directory: Path, batches: int) -> None:
    """Files that Spark reads one by one: each has all keys once."""
    directory.mkdir()
    rows = "".join(f'{{"k":"k{number:06d}"}}\n' for number in range(KEYS))
    for number in range(batches):
        (directory / f"{number:06d}.json").write_text(rows)


def _write_seconds(program: Program) -> float:
    """The median time of a batch's write, of batches after the first two."""
    program.wait_for(f"wrote {_WHOLE - 1}", START_S)
    found = [_WROTE.match(line) for line in list(program.lines)]
    return median(int(one[2]) / 1000 for one in found if one and int(one[1]) >= 2)


def _unfinished(counts: Counts) -> int:
    """The number of keys that have the rows of a batch which other keys lack."""
    newest = max(counts)
    return counts[newest] if counts[newest] < KEYS else 0
