"""The state in checkpoints that Spark wrote, read as Spark's own reader reads it."""

import itertools
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from qss_spark.state.inventory import Inventory
from qss_testing.writers.spark_queries import QUERIES, SCALA, can_run
from qss_testing.writers.spark_state import EXPECTED, WAYS, in_order, plain_row

FILES = sorted((Path(__file__).parent / "spark_state").glob("*/*.zip"))
VERSIONS = {file.parent.name for file in FILES}
FADING = [file for file in FILES if file.stem.startswith("ttl-")]


@pytest.fixture(params=FILES, ids=lambda file: f"{file.stem} of {file.parent.name}")
def checkpoint(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A checkpoint that Spark wrote, beside the rows that Spark read from it."""
    with zipfile.ZipFile(request.param) as archive:
        archive.extractall(tmp_path)
    return tmp_path


def test_each_query_and_each_way_of_keeping_state_has_a_checkpoint() -> None:
    names = {(file.parent.name, file.stem) for file in FILES}
    queries = itertools.product((*QUERIES, *SCALA), WAYS)
    assert names == {
        (version, f"{query}-{way}")
        for query, way in queries
        for version in VERSIONS
        if can_run(query, way, version)
    }


def test_every_row_is_the_one_that_spark_reads(checkpoint: Path) -> None:
    expected: dict[str, Any] = json.loads((checkpoint / EXPECTED).read_text())["parts"]
    found = Inventory(checkpoint)
    counted = [found.counted(one) for one in found.items]
    assert {one.part: one.reason for one in counted} == dict.fromkeys(expected)
    assert {one.part: one.rows for one in counted} == {
        part: len(rows) for part, rows in expected.items()
    }
    assert {one.part: rows_of(found.table(one)) for one in found.items} == expected


@pytest.mark.parametrize("file", FADING, ids=lambda file: f"{file.stem} of {file.parent.name}")
def test_no_value_outlives_its_time_in_the_state_of_a_batch(file: Path, tmp_path: Path) -> None:
    """A mirror gets what expires as deletes: it looks at no clock."""
    for time_ms, values in values_by_batch(file, tmp_path):
        assert all(one["ttlExpirationMs"] > time_ms for one in values)


def test_values_have_expired_in_such_files(tmp_path: Path) -> None:
    for file in FADING:
        if file.parent.name == "4.3.0":
            newest, *older = (
                len(values) for _, values in values_by_batch(file, tmp_path / file.stem)
            )
            assert newest < max(older)


def values_by_batch(file: Path, directory: Path) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """The time of each batch and the values after it, the newest first."""
    with zipfile.ZipFile(file) as archive:
        archive.extractall(directory)
    commits = {int(one.name): one for one in (directory / "commits").glob("[0-9]*")}
    for number in sorted(commits, reverse=True):
        document = json.loads((directory / "offsets" / str(number)).read_text().splitlines()[1])
        found = Inventory(directory)
        assert found.batch.number == number
        tables = {one.part: found.table(one).column("value").to_pylist() for one in found.items}
        values = [*tables["last"], *tables["ports"], *itertools.chain(*tables["delays"])]
        yield document["batchTimestampMs"], values
        commits[number].unlink()


def rows_of(table: pa.Table) -> list[Any]:
    """The rows as [key, value], in one order."""
    key, value = (table.schema.field(name).type for name in ("key", "value"))
    return in_order(
        [plain_row(row["key"], key), plain_row(row["value"], value)] for row in table.to_pylist()
    )
