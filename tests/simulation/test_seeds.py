"""Some seeds of `make simulate`: no acknowledged data is lost under any fault."""

import os
import subprocess
import sys
from collections import Counter

import pytest

from qss_simulation.story import run_seed
from qss_testing.plants.planted import ROOT

pytestmark = pytest.mark.long

SEEDS = range(1, 41)
# A fault that never happens would test nothing. In these runs all of them happen; a change of the
# services changes the runs, and others may have to be found.
_WITH_ALL_FAULTS = (11, 14, 19, 30, 48, 57, 193)
_FAULTS = (
    "again",
    "api",
    "blackout",
    "clock",
    "crash",
    "cut",
    "edit",
    "epoch",
    "full-disk",
    "hole",
    "index",
    "isolate",
    "messages",
    "old-status",
    "old-volume",
    "operator",
    "pause",
    "power",
    "slow-disk",
)
_EVENTS = (
    "acknowledged",
    "conflict",
    "database-lost",
    "database-went-back",
    "driver-fenced",
    "format",
    "given-up",
    "lost",
    "lost-publish",
    "pages-lost",
    "read-failed",
    "restart",
    "scale",
    "stale-read",
    "standbys",
    "status-went-back",
    "to-failover",
    "to-handoff",
    "to-joined",
    "to-learner",
    "to-left-sync",
    "to-made",
    "to-next-epoch",
    "to-older-epoch",
    "to-removed",
    "volume-lost",
    "volume-went-back",
)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_seed_loses_or_mixes_a_batch(seed: int) -> None:
    outcome = run_seed(seed)
    assert outcome.failure is None, f"{outcome.failure}; make simulate REPLAY={seed}"
    assert outcome.counts["acknowledged"] >= 2


def test_every_fault_happens() -> None:
    counts: Counter[str] = Counter()
    for seed in _WITH_ALL_FAULTS:
        counts.update(run_seed(seed).counts)
    missing = [f"fault-{kind}" for kind in _FAULTS if not counts[f"fault-{kind}"]]
    assert missing + [what for what in _EVENTS if not counts[what]] == []


def test_a_seed_gives_the_same_trace_in_every_process() -> None:
    first, second = (traces(hash_seed) for hash_seed in ("1", "2"))
    assert len(first) == 2
    assert first == second


def traces(hash_seed: str) -> list[str]:
    """Digests of the traces of two seeds, made in a process of its own."""
    environment = os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT / "tests")}
    done = subprocess.run(
        [sys.executable, "-m", "qss_simulation", "--seeds", "2", "--from", "229", "--traces"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return [line for line in done.stdout.splitlines() if line.startswith("trace of seed")]
