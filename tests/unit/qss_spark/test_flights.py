"""The flights come as one file a day, complete and in order, also after an interruption."""

import csv
from pathlib import Path

import pytest

from qss_spark.flights import FLIGHTS, read_rows, write_days

DAY = "2013-02-01.csv"


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("flights") / "days"
    assert write_days(directory) == 365
    return directory


def rows_of(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as text:
        return list(csv.DictReader(text))


def test_every_flight_is_in_the_file_of_its_day(days: Path) -> None:
    files = sorted(days.iterdir())
    assert len(files) == 365
    assert (files[0].name, files[-1].name) == ("2013-01-01.csv", "2013-12-31.csv")
    with (days / DAY).open() as text:
        header = text.readline()
    assert header.startswith("year,month,day,")
    lines = sum(file.read_text().count("\n") for file in files)
    assert lines - len(files) == FLIGHTS == 336_776
    assert {(row["month"], row["day"]) for row in rows_of(days / DAY)} == {("2", "1")}


def test_a_missing_value_is_an_empty_field(days: Path) -> None:
    values = [value for row in rows_of(days / DAY) for value in row.values()]
    assert "NA" not in values
    assert "" in values


def test_the_files_times_are_in_the_order_of_the_days(days: Path) -> None:
    times = [file.stat().st_mtime for file in sorted(days.iterdir())]
    assert times == sorted(set(times))


def test_after_a_cut_only_what_is_missing_is_written(days: Path) -> None:
    whole, time_s = (days / DAY).read_text(), (days / DAY).stat().st_mtime
    kept = days / "2013-02-02.csv"
    written = kept.stat().st_ino
    (days / DAY).unlink()
    (days / f".{DAY}.1").write_text(whole[: len(whole) // 2])

    assert write_days(days) == 365
    assert (days / DAY).read_text() == whole
    assert (days / DAY).stat().st_mtime == time_s
    assert kept.stat().st_ino == written
    (days / f".{DAY}.1").unlink()


def test_the_header_comes_first() -> None:
    assert next(read_rows())[:4] == ["year", "month", "day", "dep_time"]
