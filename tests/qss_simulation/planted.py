"""Puts bugs back one after the other, and says which seed finds each of them."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from qss_testing.faults.planted import PLANTS, ROOT, Plant, plant

# Bugs in what is not simulated: HTTP, files of RocksDB, and reads beside those of partitions.
_NOT_SIMULATED: frozenset[str] = frozenset()
_FAILED = re.compile(r"^seed (\d+): (.*)", re.MULTILINE)


def finding_seed(one: Plant, seeds: int) -> tuple[int, str] | None:
    """The first seed that fails with the mend taken out, and how; None where none does."""
    with tempfile.TemporaryDirectory() as directory:
        path = [*map(str, plant(one, Path(directory))), str(ROOT / "tests")]
        done = subprocess.run(
            [sys.executable, "-m", "qss_simulation", "--seeds", str(seeds), "--stop"],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(path)},
            capture_output=True,
            text=True,
            check=False,
        )
    found = _FAILED.search(done.stdout)
    assert found or done.returncode == 0, done.stdout + done.stderr
    return (int(found[1]), found[2]) if found else None


def run(seeds: int, words: str, say: Callable[[str], None]) -> int:
    """Puts bugs with these words in their names back; returns how many no seed found."""
    missed = 0
    for one in PLANTS:
        if words not in one.name:
            continue
        found = finding_seed(one, seeds)
        if found is not None:
            say(f"seed {found[0]:4}  {one.name}: {found[1]}")
        else:
            say(f"none       {one.name}")
            missed += one.name not in _NOT_SIMULATED
    return missed
