"""`python -m qss_faults`: strikes a store by some seeds; exit code 1 if a bound broke."""

import argparse
import signal
import sys
import tempfile
from pathlib import Path

from qss_faults.history import KINDS
from qss_faults.parts.namespaces import enter, why_no_namespaces
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
    parser.add_argument("--plain", action="store_true", help="no faults of links and disks")
    parser.add_argument("--keep", type=Path, help="a new directory for the files of the run")
    given = parser.parse_args()
    reason = "--plain was given" if given.plain else why_no_namespaces()
    if reason is None:
        enter("qss_faults")
    else:
        _say(f"faults of links and of disks are left out: {reason}")
    signal.signal(signal.SIGTERM, _leave)
    broken = 0
    for seed in range(given.first, given.first + given.seeds):
        plan = plan_of(seed, given.kind or ALL, given.faults, given.pods)
        _say(f"seed {seed}: {plan.content}, {plan.pods} pods, standbys: {plan.standbys}")
        if given.keep is None:
            with tempfile.TemporaryDirectory(prefix="qss-faults-") as directory:
                outcome = run_plan(plan, Path(directory), _say)
        else:
            directory = given.keep / f"seed-{seed}"
            directory.mkdir(parents=True)
            outcome = run_plan(plan, directory, _say)
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
    replica = outcome.replica
    refused = ", ".join(f"{count} {code}" for code, count in sorted(replica.refusals.items()))
    _say(
        f"{history.acknowledged + 1} batches; {outcome.client.reads} reads by a client, "
        f"{replica.reads} of single replicas (refused: {refused or 'none'}); "
        f"{outcome.compared_rows} rows compared at the end"
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
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit(143)


if __name__ == "__main__":
    raise SystemExit(main())
