"""`python -m qss_siege`: runs a siege, prints its figures; exit code 1 if a bound is exceeded."""

import argparse
import sys
import tempfile
from pathlib import Path

from qss_bench.report import show
from qss_siege.figures import figures_of
from qss_siege.hostile import KINDS
from qss_siege.siege import Outcome, Plan, besiege

_MIB = 1024 * 1024


def main() -> int:
    """Runs one siege; returns the exit code."""
    parser = argparse.ArgumentParser(prog="qss_siege", description=__doc__)
    parser.add_argument(
        "--seconds", type=float, default=120.0, help="how long hostile callers call"
    )
    parser.add_argument("--idle-seconds", type=float, default=15.0, help="before them")
    parser.add_argument("--share", type=float, default=1.0, help="of the callers of each kind")
    parser.add_argument("--limit-mib", type=int, default=1024, help="the pod's memory limit")
    parser.add_argument("--kind", action="append", choices=tuple(KINDS), help="only these kinds")
    given = parser.parse_args()
    plan = Plan(
        limit_bytes=given.limit_mib * _MIB,
        seconds=given.seconds,
        idle_seconds=given.idle_seconds,
        share=given.share,
        kinds=tuple(given.kind or KINDS),
    )
    with tempfile.TemporaryDirectory(prefix="qss-siege-") as directory:
        outcome = besiege(plan, Path(directory))
    _tell_callers(outcome)
    figures = figures_of(outcome)
    show(figures)
    return 0 if all(figure.holds for figure in figures) else 1


def _tell_callers(outcome: Outcome) -> None:
    for kind, ends in outcome.hostile.items():
        told = ", ".join(f"{count} x {end}" for end, count in sorted(ends.items()))
        sys.stdout.write(f"{kind}: {told or 'none has ended'}\n")
    sys.stdout.write("\n")


if __name__ == "__main__":
    raise SystemExit(main())
