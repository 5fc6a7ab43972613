"""The job that ships, run as people run it, on a machine without a Java of its own."""

import csv
import json
import os
import subprocess
import sys
from itertools import chain, groupby, takewhile
from pathlib import Path

import pytest

from qss_client import Store
from qss_spark.demo.expected import aircraft_stats_of, differences
from qss_spark.demo.processes import jobs_directory
from qss_spark.flights import read_rows
from qss_testing.pod_process import PodCluster

pytestmark = pytest.mark.spark

DAYS = 20


def first_days() -> list[list[str]]:
    """The header and the flights of the first days."""
    rows = read_rows()
    header = next(rows)
    return [header, *takewhile(lambda row: row[1] == "1" and int(row[2]) <= DAYS, rows)]


def write_files(directory: Path, rows: list[list[str]]) -> None:
    directory.mkdir()
    for number, (day, flights) in enumerate(groupby(rows[1:], key=lambda row: int(row[2]))):
        file = directory / f"2013-01-{day:02d}.csv"
        with file.open("w", newline="") as text:
            csv.writer(text).writerows(chain([rows[0]], flights))
        os.utime(file, (1_000_000 + number, 1_000_000 + number))


def without_java(directory: Path) -> dict[str, str]:
    """This environment with every program of the PATH but java."""
    programs = directory / "bin"
    programs.mkdir()
    for folder in os.environ["PATH"].split(os.pathsep):
        for program in Path(folder).glob("*"):
            if not program.name.startswith("java") and not (programs / program.name).exists():
                (programs / program.name).symlink_to(program)
    kept = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    return {**kept, "PATH": str(programs), "XDG_CACHE_HOME": str(directory / "cache")}


@pytest.mark.skipif(sys.platform == "win32", reason="needs a PATH of links")
def test_the_job_equals_the_batch_computation_over_the_same_days(tmp_path: Path) -> None:
    rows = first_days()
    write_files(tmp_path / "days", rows)
    with PodCluster(tmp_path, pods=2, partitions=12, store="aircraft-stats") as cluster:
        ended = subprocess.run(
            [
                *(sys.executable, str(jobs_directory() / "aircraft_stats.py"), "--progress"),
                *("--url", cluster.url, "--checkpoint", str(tmp_path / "job")),
                *("--input", str(tmp_path / "days")),
            ],
            env=without_java(tmp_path),
            capture_output=True,
            text=True,
            check=False,
            timeout=180,
        )
        assert ended.returncode == 0, ended.stderr
        with Store(cluster.url, cluster.store) as store:
            found = differences(aircraft_stats_of(iter(rows)), store.range())
            last = store.position.offset_of("@batch.aircraft-stats", 1)
    assert found == []
    lines = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]
    tail = rows[0].index("tailnum")
    assert sum(line["rows"] for line in lines) == sum(bool(row[tail]) for row in rows[1:])
    assert last == lines[-1]["batch"] == (DAYS - 1) // 7
    assert len(list((tmp_path / "days").iterdir())) == DAYS, "the input is left as it is"
    assert list((tmp_path / "cache" / "queryable-state").glob("java-*/bin/java"))
