"""The arguments of the jobs over the flights, checked before Spark starts."""

import subprocess
import sys
from pathlib import Path

import pytest

from qss_spark.demo.processes import jobs_directory


def run_job(directory: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    job = str(jobs_directory() / "aircraft_stats.py")
    return subprocess.run(
        [sys.executable, job, "--url", "http://127.0.0.1:1", *arguments],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.parametrize("sign", ["[", "]", "{", "}", "*", "?", "\\"])
def test_a_directory_that_spark_takes_for_a_pattern_is_refused(tmp_path: Path, sign: str) -> None:
    here = tmp_path / f"clone {sign}1"
    here.mkdir()
    done = run_job(here, "--checkpoint", "job", "--input", "days")
    assert done.returncode == 2
    told = f"Spark takes {sign} for a pattern and would not read {here / 'days'}: choose another"
    assert told in done.stderr
    assert list(here.iterdir()) == []
