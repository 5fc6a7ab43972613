"""`python -m qss_bench.mirrored.figures [KEYS...]`: the figures of `qss mirror`, as one table."""

import re
import statistics
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from qss_bench.mirrored.side import BATCH_S, START_S, Program, Side, pods, tell
from qss_client.clock import SystemClock
from qss_testing.waiting import wait_until

_CLOCK = SystemClock()
_BATCHES, _WARM = 30, 8
_ROWS, _OF_A_FILE = 1_000_000, 100_000
_LAG = re.compile(r"batch (\d+): changes, \d+ rows, (\d+) ms after its commit")


@dataclass(frozen=True, slots=True)
class Batches:
    """What each batch of a query took, and the processor time of the query and of the mirror."""

    trigger_ms: float
    query_cpu_s: float
    mirror_cpu_s: float = 0.0
    lags_ms: tuple[int, ...] = ()


def batches_of(side: Side, query: Program, mirror: Program | None) -> Batches:
    """Feeds batches one by one: the next one comes when the store has the last one."""
    took = []
    query_s, mirror_s = query.cpu_s(), 0.0 if mirror is None else mirror.cpu_s()
    seen = 0 if mirror is None else len(mirror.lines)
    for _ in range(_BATCHES):
        began_ms = _CLOCK.wall_ms()
        number = side.input.put()
        took.append(side.wait(number) * 1000 - began_ms)
        if mirror is not None:
            mirror.wait_for(f"batch {number}:", BATCH_S)
    query_s = query.cpu_s() - query_s
    mirror_s = 0.0 if mirror is None else mirror.cpu_s() - mirror_s
    lags = () if mirror is None else tuple(_lags(mirror.lines[seen:]))
    return Batches(statistics.median(took), query_s, mirror_s, lags)


def _lags(lines: list[str]) -> list[int]:
    return [int(found[2]) for line in lines if (found := _LAG.search(line))]


def beside(directory: Path, place: list[str], keys: int) -> None:
    """Measures batches of so many changed keys, in turns without and with a mirror."""
    side = Side(directory, keys)
    query = side.query()
    try:
        side.input.put()
        wait_until(side.committed(0).exists, START_S)
        for _ in range(_WARM):
            side.wait(side.input.put())
        alone, both = [], []
        for _ in range(2):
            alone.append(batches_of(side, query, None))
            mirror = side.mirror(place, "--writer", f"keys-{keys}")
            mirror.wait_for(f"batch {side.newest()}", START_S)
            both.append(batches_of(side, query, mirror))
            mirror.kill()
    finally:
        query.kill()
    lags = sorted(lag for one in both for lag in one.lags_ms)
    cpu = sum(one.mirror_cpu_s for one in both) / sum(one.query_cpu_s for one in both)
    alone_ms = min(one.trigger_ms for one in alone)
    ratio = min(one.trigger_ms for one in both) / alone_ms
    tell(
        f"{keys} keys: behind the commit p50 {statistics.median(lags):.0f} ms, "
        f"p95 {lags[int(len(lags) * 0.95)]} ms; CPU of the mirror {cpu:.1%} of the query's; "
        f"the query's batches {ratio:.2f} of those without a mirror ({alone_ms:.0f} ms)"
    )


def first_copy(directory: Path, place: list[str]) -> None:
    """Measures the first copy of a million rows against Spark's own reader, both as programs."""
    side = Side(directory, _ROWS)
    for number in range(_ROWS // _OF_A_FILE):
        first = number * _OF_A_FILE
        text = "".join(
            f'{{"k":"k{one:07d}","n":{one}}}\n' for one in range(first, first + _OF_A_FILE)
        )
        (side.input.path / f"{number:06d}.json").write_text(text)
    query = side.query()
    try:
        wait_until(side.committed(_ROWS // _OF_A_FILE - 1).exists, 4 * START_S)
    finally:
        query.kill()
    copied_s = _seconds_of(side.mirror(place, "--writer", "first", "--once"))
    read_s = _seconds_of(Program(["qss_bench.mirrored.reader", str(side.checkpoint)]))
    tell(
        f"first copy of {_ROWS} rows: {copied_s:.1f} s; a program that reads them by Spark's own "
        f"reader: {read_s:.1f} s: {copied_s / read_s:.2f}"
    )


def _seconds_of(program: Program) -> float:
    """The time until a program ends, from its start."""
    began_s = _CLOCK.monotonic_s()
    wait_until(lambda: not program.is_running, 4 * START_S)
    return _CLOCK.monotonic_s() - began_s


def main() -> None:
    """Measures the numbers of keys that are given, 0 for the first copy; by default all."""
    given = [int(one) for one in sys.argv[1:]] or [200, 5_000, 100_000, 0]
    with tempfile.TemporaryDirectory(dir="/dev/shm", ignore_cleanup_errors=True) as directory:
        for keys in given:
            here = Path(directory) / str(keys)
            here.mkdir()
            with pods(here / "pods") as place:
                if keys:
                    beside(here, place, keys)
                else:
                    first_copy(here, place)


if __name__ == "__main__":
    main()
