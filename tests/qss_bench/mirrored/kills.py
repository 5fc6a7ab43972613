"""`python -m qss_bench.mirrored.kills [--seed N] [--batches N] [--kills N]`: see the package."""

import argparse
import random  # noqa: TID251 the seed chooses what is killed.
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from qss_bench.mirrored.side import START_S, Program, Side, pods, tell
from qss_testing.pods.pod_process import PodCluster
from qss_testing.waiting import wait_until

_KEYS = 200
_WHOLE_S = 1800.0


class Struck:
    """A query and a mirror that are started again whenever one of them is killed."""

    def __init__(self, directory: Path, cluster: PodCluster, rng: random.Random) -> None:
        """Starts the query; `begin` starts the mirror."""
        self.side, self._cluster, self._rng = Side(directory, _KEYS), cluster, rng
        self._query = self.side.query()
        self._mirror: Program | None = None
        self.lines: list[str] = []  # Of the mirrors that were killed.

    def begin(self) -> None:
        """Waits for the first batch, and starts the mirror."""
        wait_until(self.side.committed(0).exists, START_S)
        self._mirror = self.side.mirror(self._cluster)

    def strike(self) -> str:
        """Kills the query, the mirror or a pod, and starts it again; returns which."""
        what = self._rng.choice(("query", "mirror", "pod"))
        if what == "query":
            self._query.kill()
            self._query = self.side.query()
        elif what == "mirror":
            self._end_mirror()
            self._mirror = self.side.mirror(self._cluster)
        else:
            pod = self._rng.choice(self._cluster.pods)
            pod.kill()
            pod.start()
        return what

    def revive(self) -> None:
        """Starts a mirror again that has ended, as a Deployment does: its pods were away."""
        if self._mirror is not None and not self._mirror.is_running:
            self._end_mirror()
            self._mirror = self.side.mirror(self._cluster)

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


def run(directory: Path, cluster: PodCluster, rng: random.Random, batches: int, kills: int) -> int:
    """Runs the batches and the kills; returns the exit code of the comparison."""
    struck = Struck(directory, cluster, rng)
    with ExitStack() as stack:
        stack.callback(struck.end)
        for _ in range(batches):
            struck.side.input.put()
        struck.begin()
        places = sorted(rng.sample(range(1, batches - 1), kills))
        done: Counter[str] = Counter()
        for place in places:
            wait_until(lambda at=place: struck.side.newest() >= at, _WHOLE_S)  # type: ignore[misc]
            done[struck.strike()] += 1
            struck.revive()
        wait_until(lambda: struck.side.newest() >= batches - 1, _WHOLE_S)
    last = struck.side.mirror(cluster, "--once")
    wait_until(lambda: not last.is_running, START_S)
    lines = [*struck.lines, *last.lines]
    written = [one for one in lines if ": batch " in one]
    whole = sum("the whole state" in one for one in written)
    tell(f"{batches} batches, killed {dict(done)}; {len(written)} told, {whole} whole states")
    verdict = struck.side.mirror(cluster, "--verify")
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
    with (
        tempfile.TemporaryDirectory(dir="/dev/shm", ignore_cleanup_errors=True) as directory,
        pods(Path(directory) / "pods", 3) as cluster,
    ):
        here = Path(directory) / "query"
        here.mkdir()
        rng = random.Random(given.seed)
        sys.exit(run(here, cluster, rng, given.batches, given.kills))


if __name__ == "__main__":
    main()
