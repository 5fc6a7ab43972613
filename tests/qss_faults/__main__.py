"""`python -m qss_faults`: strikes a store with faults of some seeds; ends with 1 if a bound broke."""

import argparse
import signal
import sys
import tempfile
from pathlib import Path

from qss_faults.history import KINDS
from qss_faults.plan import ALL, Kind, plan_of
from qss_faults.run import Outcome, run_plan


def main() -> int:
    """Runs the seeds one after the other; returns the exit code."""
    parser = argparse.ArgumentParser(prog="qss_faults", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds")
    parser.add_argument("--from", type=int, default=1, dest="first", help="the first seed")
    parser.add_argument("--faults", type=int, help="how many faults; by default each kind once")
    parser.add_argument("--kind", action="append", type=Kind, choices=tuple(Kind))
    parser.add_argument("--pods", type=int, help="how many pods; by default the seed chooses")
    parser.add_argument("--plain", action="store_true", help="no namespaces, and no disks")
    parser.add_argument("--keep", type=Path, help="a new directory for the files of the run")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, _leave)
    broken = 0
    for seed in range(given.first, given.first + given.seeds):
        plan = plan_of(seed, given.kind or ALL, given.faults, given.pods)
        _say(f"seed {seed}: {plan.pods} pods, standbys: {plan.standbys}")
        if given.keep is None:
            with tempfile.TemporaryDirectory(prefix="qss-faults-") as directory:
                outcome = run_plan(plan, Path(directory), _say, plain=given.plain)
        else:
            directory = given.keep / f"seed-{seed}"
            directory.mkdir(parents=True)
            outcome = run_plan(plan, directory, _say, plain=given.plain)
        _tell(outcome)
        broken += not outcome.holds
    return 1 if broken else 0


def _tell(outcome: Outcome) -> None:
    history = outcome.history
    for trace in history.traces:
        _say(f"BROKEN {trace}")
    for failure in outcome.writer.failures:
        _say(f"the writer opened a new run: {failure}")
    if outcome.stuck:
        _say(f"BROKEN {outcome.stuck}")
    kinds = ", ".join(f"{count} x {kind}" for kind, count in sorted(outcome.struck.items()))
    _say(f"faults: {kinds}")
    reads = sum(one.reads for one in outcome.clients)
    single = sum(one.reads for one in outcome.replicas)
    refused = sum(sum(one.refusals.values()) for one in outcome.replicas)
    _say(
        f"{history.acknowledged + 1} batches; {reads} reads by a client, {single} of single "
        f"replicas ({refused} refused); {outcome.compared_rows} rows compared at the end"
    )
    wrong = ", ".join(f"{history.broken[kind]} {kind}" for kind in KINDS)
    longest_s, during = outcome.longest_wait
    _say(
        f"seed {outcome.plan.seed}: {wrong}; {sum(outcome.failed_reads.values())} failed reads; "
        f"longest wait of the writer {longest_s:.1f} s ({during})"
    )


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _leave(*_: object) -> None:
    """Has `finally` run, so that links, disks and processes end."""
    raise SystemExit(143)


if __name__ == "__main__":
    raise SystemExit(main())
