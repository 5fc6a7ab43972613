"""The state in checkpoints that Spark wrote, read as Spark's own reader reads it."""

import itertools
import json
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from qss_spark.state.inventory import Inventory
from qss_testing.writers.spark_state import EXPECTED, PROCESSORS, QUERIES, WAYS, in_order, plain_row

FILES = sorted((Path(__file__).parent / "spark_state").glob("*/*.zip"))


@pytest.fixture(params=FILES, ids=lambda file: f"{file.stem} of {file.parent.name}")
def checkpoint(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A checkpoint that Spark wrote, beside the rows that Spark read from it."""
    with zipfile.ZipFile(request.param) as archive:
        archive.extractall(tmp_path)
    return tmp_path


def test_each_query_and_each_way_of_keeping_state_has_a_checkpoint() -> None:
    names = {file.stem for file in FILES}
    refused = {f"{query}-hdfs" for query in PROCESSORS}  # By Spark itself.
    assert names == {f"{query}-{way}" for query in QUERIES for way in WAYS} - refused


def test_every_row_is_the_one_that_spark_reads(checkpoint: Path) -> None:
    expected: dict[str, Any] = json.loads((checkpoint / EXPECTED).read_text())["parts"]
    found = Inventory(checkpoint)
    counted = [found.counted(one) for one in found.items]
    assert {one.part: one.reason for one in counted} == dict.fromkeys(expected)
    assert {one.part: one.rows for one in counted} == {
        part: len(rows) for part, rows in expected.items()
    }
    assert {one.part: rows_of(found.table(one)) for one in found.items} == expected


@pytest.mark.parametrize(
    "file", [file for file in FILES if file.stem.startswith("ttl-")], ids=lambda file: file.stem
)
def test_no_value_outlives_its_time_in_the_state_of_a_batch(file: Path, tmp_path: Path) -> None:
    """A mirror gets what expires as deletes: it looks at no clock."""
    with zipfile.ZipFile(file) as archive:
        archive.extractall(tmp_path)
    commits = {int(one.name): one for one in (tmp_path / "commits").glob("[0-9]*")}
    left = []
    for number in sorted(commits, reverse=True):
        document = json.loads((tmp_path / "offsets" / str(number)).read_text().splitlines()[1])
        found = Inventory(tmp_path)
        assert found.batch.number == number
        tables = {one.part: found.table(one).column("value").to_pylist() for one in found.items}
        values = [*tables["last"], *tables["ports"], *itertools.chain(*tables["delays"])]
        left.append(len(values))
        assert all(one["ttlExpirationMs"] > document["batchTimestampMs"] for one in values)
        commits[number].unlink()
    assert left[0] < max(left)


def rows_of(table: pa.Table) -> list[Any]:
    """The rows as [key, value], in one order."""
    key, value = (table.schema.field(name).type for name in ("key", "value"))
    return in_order(
        [plain_row(row["key"], key), plain_row(row["value"], value)] for row in table.to_pylist()
    )
