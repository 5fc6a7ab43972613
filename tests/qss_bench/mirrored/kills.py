"""`python -m qss_bench.mirrored.kills [--seed N] [--batches N] [--kills N]`: see the package."""

import argparse
import random  # noqa: TID251 the seed chooses what is killed.
import re
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from qss_bench.mirrored.side import PODS, START_S, LocalStore, Program, Side, tell
from qss_testing.waiting import wait_until

_KEYS = 200
_TOLD = re.compile(r"batch (\d+)")
_WHOLE_S = 1800.0


class Struck:
    """A query and a mirror that are started again whenever one of them is killed."""

    def __init__(self, directory: Path, store: LocalStore, rng: random.Random) -> None:
        """Starts the query; `begin` starts the mirror."""
        self.side, self._store, self._rng = Side(directory, _KEYS), store, rng
        self._query = self.side.query()
        self._mirror: Program | None = None
        self.lines: list[str] = []  # Of the mirrors that were killed.

    def begin(self) -> None:
        """Waits for the first batch, and starts the mirror."""
        wait_until(self.side.committed(0).exists, START_S)
        self._mirror = self.side.mirror(self._store.place)

    def strike(self) -> str:
        """Kills the query, the mirror or a pod, which is started again; returns which."""
        what = self._rng.choice(("query", "mirror", "pod"))
        if what == "query":
            self._query.kill()
            self._query = self.side.query()
        elif what == "mirror":
            self._end_mirror()
            self._mirror = self.side.mirror(self._store.place)
        else:
            self._store.kill_pod(self._rng.randrange(PODS))
        return what

    def revive(self) -> None:
        """Starts what has ended by itself again, as Kubernetes does: its pods were away."""
        if not self._query.is_running:
            self._query = self.side.query()
        if self._mirror is not None and not self._mirror.is_running:
            self._end_mirror()
            self._mirror = self.side.mirror(self._store.place)

    def has(self, batch: int) -> bool:
        """Whether the mirror has told that the store has this batch; starts an ended one again."""
        self.revive()
        assert self._mirror is not None, "it was begun"
        told = (_TOLD.search(one) for one in (*self.lines[-5:], *list(self._mirror.lines)[-5:]))
        return any(int(found[1]) >= batch for found in told if found)

    def _end_mirror(self) -> None:
        assert self._mirror is not None, "it was begun"
        self._mirror.kill()
        self.lines += self._mirror.lines

    def end(self) -> None:
        """Kills the query and the mirror."""
        self._query.kill()
        if self._mirror is not None:
            self._end_mirror()
            self._mirror = None


def run(directory: Path, store: LocalStore, rng: random.Random, batches: int, kills: int) -> int:
    """Runs the batches and the kills; returns the exit code of the comparison."""
    struck = Struck(directory, store, rng)
    with ExitStack() as stack:
        stack.callback(struck.end)
        for _ in range(batches):
            struck.side.input.put()
        struck.begin()
        places = sorted(rng.sample(range(1, batches * 9 // 10), kills))
        done: Counter[str] = Counter()
        for place in places:
            wait_until(lambda at=place: struck.has(at), _WHOLE_S)  # type: ignore[misc]
            done[struck.strike()] += 1
        wait_until(lambda: struck.has(0) and struck.side.has_read(batches), _WHOLE_S)
    last = struck.side.mirror(store.place, "--once")
    wait_until(lambda: not last.is_running, START_S)
    lines = [*struck.lines, *last.lines]
    written = [one for one in lines if ": batch " in one]
    whole = sum("the whole state" in one for one in written)
    tell(f"{batches} batches, killed {dict(done)}; {len(written)} told, {whole} whole states")
    verdict = struck.side.mirror(store.place, "--verify")
    wait_until(lambda: not verdict.is_running, START_S)
    tell("\n".join(verdict.lines))
    newest = struck.side.newest()
    is_equal = any(f"batch {newest}: " in one and "all as Spark" in one for one in verdict.lines)
    return 0 if is_equal else 1


def main() -> None:
    """Runs one seed; the exit code is 1 where a row differs."""
    parser = argparse.ArgumentParser(prog="qss_bench.mirrored.kills", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--batches", type=int, default=1000)
    parser.add_argument("--kills", type=int, default=50)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/dev/shm", ignore_cleanup_errors=True) as directory:
        here = Path(directory)
        store = LocalStore(here)
        try:
            rng = random.Random(given.seed)
            sys.exit(run(here, store, rng, given.batches, given.kills))
        finally:
            store.stop()


if __name__ == "__main__":
    main()
