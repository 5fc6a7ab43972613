"""Puts bugs back one after the other, and says which scenario or seed finds each of them."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from qss_simulation.replicated_log.broken import BROKEN, FIRST
from qss_simulation.replicated_log.broken import finding_seed as log_seed
from qss_testing.plants.planted import PLANTS, ROOT, Plant, plant
from qss_testing.plants.planted_batches import BATCH_PLANTS
from qss_testing.plants.planted_replicas import REPLICA_PLANTS
from qss_testing.plants.planted_standbys import STANDBY_PLANTS

OF_STANDBYS = (*STANDBY_PLANTS, *REPLICA_PLANTS)  # Looked for in stores with standbys.
ALL_PLANTS = (*PLANTS, *STANDBY_PLANTS, *BATCH_PLANTS, *REPLICA_PLANTS)

# Bugs that no check of a run can see, with the reason.
_NOT_SIMULATED = {
    "a full volume hides what is whole": "a read may fail while a volume is full",
    "another batch of a sequence is taken for the applied one": "no run sends such a batch",
    "a shortened write-ahead log is served": "RocksDB's own files are not simulated",
    "a log is cut by a few entries a round": "the log is cut, later",
    "an edited retention reaches no replica that runs": "a long log is no fault",
    "a repeat is logged again": "it costs space alone",
    "fewer standbys hand the actives over": "a handover is no fault",
    "a take-over drops what others have read": "positions are not read",
    "a count is of rows that are not shown": "counts are not asked for",
    "a batch is decided whose message no other pod reads": "messages of any size arrive",
    "an active keeps a snapshot that nobody reads": "it costs space alone",
    "a learner that takes entries is never told to copy": "no database fails while it is written",
    "damage that a read meets is told to nobody": "no block of a database is damaged",
    "the run of a batch job is closed while its tasks compute": "Spark is not simulated",
    "a query's run is not renewed any more after a store was away": "Spark is not simulated",
    "the runs of a mirror are closed while a store gets a large state": "Spark is not simulated",
    "the reports of many rounds count as those of one": "reports have no bytes",
    "a new local pod gets the ports of one that starts": "simulated pods have no ports",
    "a partition waits for a lost pod on which its active is wanted": "no run has such wishes",
    "a follower takes a watermark for entries that it did not compare": (
        "a request has all entries that are due, as rows are small; a rule of the log has its seed"
    ),
}
_FAILED = re.compile(r"^seed (\d+): (.*)", re.MULTILINE)
_FAILED_SCENARIO = re.compile(r"^scenario (.*)", re.MULTILINE)


def finding_seed(one: Plant, seeds: int) -> tuple[int, str] | None:
    """The first seed that fails with the mend taken out, and how; None where none does."""
    only = ["--standbys"] if one in OF_STANDBYS else []
    found = _FAILED.search(_told(one, "--seeds", str(seeds), *only))
    return (int(found[1]), found[2]) if found else None


def finding_scenario(one: Plant) -> str | None:
    """The first scenario that fails with the mend taken out, and how; None where none does."""
    found = _FAILED_SCENARIO.search(_told(one, "--scenarios", "", "--seeds", "1"))
    return found[1] if found else None


def _told(one: Plant, *arguments: str) -> str:
    """The output of a simulation with the mend taken out, up to its first failure."""
    with tempfile.TemporaryDirectory() as directory:
        path = [*map(str, plant(one, Path(directory))), str(ROOT / "tests")]
        done = subprocess.run(
            [sys.executable, "-m", "qss_simulation", "--stop", *arguments],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(path)},
            capture_output=True,
            text=True,
            check=False,
        )
    is_failed = bool(_FAILED.search(done.stdout) or _FAILED_SCENARIO.search(done.stdout))
    assert is_failed or done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run(seeds: int, words: str, say: Callable[[str], None]) -> int:
    """Puts bugs with these words in their names back; returns how many nothing found.

    The scenarios, which take half a minute, come before the seeds.

    A bug that no check can see is not put back; a test of its own finds it.
    """
    missed = _run_rules(words, say)
    for one in ALL_PLANTS:
        if words not in one.name:
            continue
        if one.name in _NOT_SIMULATED:
            say(f"not seen   {one.name}: {_NOT_SIMULATED[one.name]}")
            continue
        if (scenario := finding_scenario(one)) is not None:
            say(f"scenario   {one.name}: {scenario}")
        elif (found := finding_seed(one, seeds)) is not None:
            say(f"seed {found[0]:4}  {one.name}: {found[1]}")
        else:
            say(f"none       {one.name}")
            missed += 1
    return missed


def _run_rules(words: str, say: Callable[[str], None]) -> int:
    """Takes the rules of the replicated log out; its runs have no event loop."""
    missed = 0
    for name, guards in BROKEN.items():
        if words in name:
            found = log_seed(guards, FIRST.get(name, 0))
            say(f"log seed {found}  {name}" if found is not None else f"none       {name}")
            missed += found is None
    return missed
