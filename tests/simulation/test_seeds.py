"""Some seeds of `make simulate`: no acknowledged data is lost under any fault."""

import os
import subprocess
import sys

import pytest

from qss_simulation.faults import KINDS
from qss_simulation.story import run_seed
from qss_testing.plants.planted import ROOT

pytestmark = pytest.mark.long

SEEDS = range(1, 201)
# A fault that never happens would test nothing: each fault and event, with a seed in which it does.
# A change of the services changes the runs; the counts of the seeds then say what to write here.
_HAPPENS_IN = {
    "acknowledged": 29,
    "conflict": 21,
    "database-lost": 193,
    "database-went-back": 5,
    "driver-fenced": 1,
    "fault-again": 2,
    "fault-api": 11,
    "fault-blackout": 31,
    "fault-clock": 37,
    "fault-crash": 1,
    "fault-cut": 9,
    "fault-edit": 23,
    "fault-epoch": 29,
    "fault-full-disk": 1,
    "fault-hole": 6,
    "fault-index": 3,
    "fault-isolate": 19,
    "fault-messages": 37,
    "fault-old-status": 36,
    "fault-old-volume": 11,
    "fault-operator": 11,
    "fault-pause": 1,
    "fault-power": 18,
    "fault-slow-disk": 18,
    "format": 23,
    "given-up": 21,
    "lost": 4,
    "lost-publish": 26,
    "pages-lost": 28,
    "read-failed": 21,
    "restart": 10,
    "scale": 1,
    "stale-read": 21,
    "standbys": 23,
    "status-went-back": 36,
    "to-failover": 26,
    "to-handoff": 11,
    "to-joined": 32,
    "to-learner": 23,
    "to-left-sync": 32,
    "to-made": 2,
    "to-next-epoch": 31,
    "to-older-epoch": 48,
    "to-removed": 17,
    "volume-lost": 57,
    "volume-went-back": 3,
}


@pytest.mark.parametrize("seed", SEEDS)
def test_no_seed_loses_or_mixes_a_batch(seed: int) -> None:
    outcome = run_seed(seed)
    assert outcome.failure is None, f"{outcome.failure}; make simulate REPLAY={seed}"
    assert outcome.counts["acknowledged"] >= 2
    wanted = [what for what, where in _HAPPENS_IN.items() if where == seed]
    missing = [what for what in wanted if not outcome.counts.get(what)]
    assert missing == [], f"it happened there before: {outcome.counts}"


def test_each_fault_has_a_seed_that_is_run() -> None:
    assert {*_HAPPENS_IN.values()} <= {*SEEDS}
    assert {f"fault-{kind}" for kind in KINDS} <= {*_HAPPENS_IN}


def test_a_seed_gives_the_same_trace_in_every_process() -> None:
    """Also where hashes of texts are others."""
    seed = 229
    done = subprocess.run(
        [sys.executable, "-m", "qss_simulation", "--seeds", "1", "--from", str(seed), "--traces"],
        env=os.environ | {"PYTHONHASHSEED": "1", "PYTHONPATH": str(ROOT / "tests")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"trace of seed {seed}: {run_seed(seed).digest}\n" in done.stdout
