"""The shipped jobs run as programs: one without an installed Java, the others share a process."""

import csv
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import partial
from itertools import chain, groupby, takewhile
from pathlib import Path
from typing import Any

import pytest
import yaml

from qss_client import Store
from qss_client.http.sync_http import SyncHttp
from qss_client.writes.writers import list_writers
from qss_core.model import StoreType
from qss_spark.demo.expected import (
    GAP_MS,
    Expected,
    Flights,
    aircraft_stats_of,
    delays_of,
    departures_of,
    differences,
    flights_weather_of,
    open_departures_of,
    rotations_of,
)
from qss_spark.demo.processes import jobs_directory, run_qss
from qss_spark.demo.scenarios import DELAYS, FLIGHTS_WEATHER, OPEN_DEPARTURES, SCENARIOS, Scenario
from qss_spark.flights import read_rows, read_weather, with_sources, write_days
from qss_testing.pods.pod_process import PodCluster
from qss_testing.waiting import wait_until
from qss_testing.writers.job_programs import JobPrograms

pytestmark = pytest.mark.spark

DAYS = 8


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
    """This environment, with all programs of the PATH except java."""
    programs = directory / "bin"
    programs.mkdir()
    for folder in os.environ["PATH"].split(os.pathsep):
        for program in Path(folder).glob("*"):
            if not program.name.startswith("java") and not (programs / program.name).exists():
                (programs / program.name).symlink_to(program)
    kept = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    return {**kept, "PATH": str(programs), "XDG_CACHE_HOME": str(directory / "cache")}


WEEK_MS = 7 * 24 * 3_600_000
STORES: dict[str, dict[str, Any]] = {
    "aircraft-stats": {},
    "departures": {
        "type": StoreType.WINDOW,
        "window_size_ms": 3_600_000,
        "retention_ms": WEEK_MS,
    },
    "rotations": {
        "type": StoreType.SESSION,
        "format": "Plain",
        "session_gap_ms": GAP_MS,
        "retention_ms": WEEK_MS,
    },
}
EXPECTED: dict[str, Callable[[Flights], Expected]] = {
    "aircraft-stats": aircraft_stats_of,
    "departures": partial(departures_of, retention_ms=WEEK_MS),
    "rotations": partial(rotations_of, retention_ms=WEEK_MS),
}
# The columns without which a job skips a flight.
NEEDED = {
    "aircraft-stats": ("tailnum",),
    "departures": (),
    "rotations": ("tailnum", "dep_time"),
}
DAYS_PER_TRIGGER = 3
TRIGGERS = -(-DAYS // DAYS_PER_TRIGGER)
# A query with a watermark ends with a batch without data.
BATCHES = {"aircraft-stats": TRIGGERS, "departures": TRIGGERS + 1, "rotations": TRIGGERS + 1}


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JobPrograms]:
    with JobPrograms(tmp_path_factory.mktemp("programs") / "log") as programs:
        yield programs


def is_closed(http: SyncHttp, cluster: PodCluster) -> bool:
    """Whether the program has closed its writer, as it does at its end."""
    (writer,) = list_writers(http, cluster.url, cluster.store)
    return writer.silent_s is None


def run_without_java(directory: Path, program: Path, *arguments: str) -> list[str]:
    """The lines that a program printed in an environment of its own, which has no Java."""
    ended = subprocess.run(
        [sys.executable, str(program), *arguments],
        env=without_java(directory),
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()


@pytest.mark.parametrize(
    "scenario",
    [one for one in SCENARIOS if len(one.parts) == 1 and not one.is_mirrored],
    ids=lambda scenario: scenario.name,
)
def test_a_job_equals_the_batch_computation_over_the_same_days(
    tmp_path: Path, programs: JobPrograms, scenario: Scenario
) -> None:
    is_without_java = scenario is SCENARIOS[0]
    rows = first_days()
    write_files(tmp_path / "days", rows)
    members = STORES[scenario.name]
    with PodCluster(tmp_path, pods=2, partitions=12, store=scenario.name, **members) as cluster:
        run = partial(run_without_java, tmp_path) if is_without_java else programs.run
        printed = run(
            jobs_directory() / f"{scenario.file}.py",
            *("--progress", "--url", cluster.url, "--checkpoint", str(tmp_path / "job")),
            *("--input", str(tmp_path / "days"), "--files-per-trigger", str(DAYS_PER_TRIGGER)),
        )
        with closing(SyncHttp()) as http:
            wait_until(lambda: is_closed(http, cluster))
        with Store(cluster.url, cluster.store) as store:
            held = list(scenario.parts[0].rows(store))
            last = store.position.offset_of(f"@batch.{scenario.name}", 1)
            places = [place for place, _ in held]
            said = scenario.ask(store, places[:1])
    assert differences(EXPECTED[scenario.name](iter(rows)), held) == []
    key = places[0] if isinstance(places[0], str) else places[0][0]
    assert said.startswith(f"{key} -> ")
    assert "yet" not in said
    lines = [json.loads(line) for line in printed if line.startswith("{")]
    needed = [rows[0].index(name) for name in NEEDED[scenario.name]]
    assert sum(line["rows"] for line in lines) == sum(
        all(row[column] for column in needed) for row in rows[1:]
    )
    assert last == lines[-1]["batch"] == BATCHES[scenario.name] - 1
    assert len(list((tmp_path / "days").iterdir())) == DAYS, "the job leaves its input as it was"
    bundled = list((tmp_path / "cache" / "queryable-state").glob("java-*/bin/java"))
    assert bool(bundled) is is_without_java


def test_the_join_equals_the_batch_computation_in_all_three_stores(
    tmp_path: Path, programs: JobPrograms
) -> None:
    days = tmp_path / "days"
    flights = with_first_days(read_rows(), "flights.csv")
    weather = with_first_days(read_weather(), "weather.csv")
    write_days(days / "flights", iter(flights))
    write_days(days / "weather", iter(weather))
    expected = flights_weather_of(iter(flights), iter(weather), 2, WEEK_MS)
    clusters = {
        part.store: PodCluster(
            tmp_path / part.store,
            partitions=2,
            store=part.store,
            type=StoreType.WINDOW,
            format="PlainWithHeaders",
            window_size_ms=3_600_000,
            retention_ms=WEEK_MS,
            retain_duplicates=True,
        )
        for part in FLIGHTS_WEATHER.parts
    }
    with ExitStack() as stack, ThreadPoolExecutor(len(clusters)) as pool:
        list(pool.map(stack.enter_context, clusters.values()))
        urls = {name: cluster.url for name, cluster in clusters.items()}
        programs.run(
            jobs_directory() / "flights_weather.py",
            *FLIGHTS_WEATHER.url_arguments(urls),
            *("--checkpoint", str(tmp_path / "job"), "--input", str(days)),
        )
        for part in FLIGHTS_WEATHER.parts:
            with Store(urls[part.store], part.store) as store:
                found = differences(expected[part.store], part.rows(store))
            assert found == [], part.store
            assert expected[part.store]


JSON_KEYS: dict[str, Any] = {"key_serde": "json"}
MIRRORED: dict[str, dict[str, Any]] = {
    "delays-airports": JSON_KEYS,
    "delays-recent": {},
    "delays-last": {},
    "open-departures": STORES["departures"],
}
EXPECTED_STATES: dict[str, Callable[[Flights], dict[str, Expected]]] = {
    "delays": delays_of,
    "open-departures": lambda rows: {"open-departures": open_departures_of(rows)},
}


@pytest.mark.parametrize("scenario", [DELAYS, OPEN_DEPARTURES], ids=lambda one: one.name)
def test_the_state_of_a_job_that_writes_no_store_equals_the_batch_computation(
    tmp_path: Path, programs: JobPrograms, scenario: Scenario
) -> None:
    days, job, rows = tmp_path / "days", tmp_path / "job", first_days()
    write_files(days, rows)
    file = yaml.safe_load((jobs_directory() / scenario.mirror_file).read_text())
    with ExitStack() as stack:
        urls = {}
        for one in file["stores"]:
            name = one["store"]
            made = PodCluster(tmp_path / name, partitions=2, store=name, **MIRRORED[name])
            urls[name] = one["url"] = stack.enter_context(made).url
        programs.run(
            jobs_directory() / f"{scenario.file}.py",
            *("--checkpoint", str(job), "--input", str(days)),
            *("--files-per-trigger", str(DAYS_PER_TRIGGER)),
        )
        (tmp_path / "mirror.yaml").write_text(yaml.dump(file))
        copied = ("mirror", str(job / "checkpoint"), "--file", str(tmp_path / "mirror.yaml"))
        run_qss(*copied, "--once")
        expected = EXPECTED_STATES[scenario.name](iter(rows))
        for part in scenario.parts:
            with Store(urls[part.store], part.store) as store:
                found = differences(expected[part.store], part.rows(store))
            assert found == [], part.store
            assert expected[part.store]
        equal = run_qss(*copied, "--verify").count("all as Spark reads them")
        assert equal == len(scenario.parts) == len(expected)


def with_first_days(rows: Flights, file: str) -> list[list[str]]:
    """The header and the rows of the first days, with a column `source`."""
    sourced = with_sources(rows, file)
    header = next(sourced)
    month, day = header.index("month"), header.index("day")
    return [header, *(row for row in sourced if row[month] == "1" and int(row[day]) <= DAYS)]
