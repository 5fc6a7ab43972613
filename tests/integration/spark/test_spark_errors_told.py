"""A store's error of a job is one line before all traces of Spark, or the last one of a batch job.

The jobs are child processes: the tests read their standard error, as a person does.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from qss_testing.pods.pod_process import PodCluster
from qss_testing.writers.word_counts import TESTS

pytestmark = pytest.mark.spark

STREAM = """
import sys
from qss_spark import StoreSink
from qss_spark.session import local_session
from qss_testing.writers.word_counts import SMALL

url, directory, columns, collect = sys.argv[1:]
spark = local_session("errors", configuration=SMALL)
rows = spark.readStream.schema(columns).json(f"{directory}/in")
sink = StoreSink("words", url, onNewCheckpoint="takeOver", collect=collect)
stream = rows.writeStream.foreachBatch(sink).option("checkpointLocation", f"{directory}/checkpoint")
stream.start().awaitTermination()
"""
BATCH = """
import sys
from qss_spark.session import local_session
from qss_testing.writers.word_counts import SMALL

spark = local_session("errors", configuration=SMALL)
rows = spark.createDataFrame([("a", 1.5)], "key string, value double")
rows.write.format("queryablestate").options(url=sys.argv[1], store="words").mode("append").save()
"""
WRONG_TYPE = (
    'MALFORMED_REQUEST: column "value" has type double and cannot be stored as int32: cast it, '
    'e.g. F.col("value").cast("int")'
)
WRONG_VALUE = 'MALFORMED_REQUEST: column "value" has a value that cannot be stored as int32: '


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PodCluster]:
    directory = tmp_path_factory.mktemp("numbers")
    with PodCluster(directory, partitions=2, value_serde="int32") as cluster:
        yield cluster


def said(program: str, *arguments: str) -> list[str]:
    """The lines that a failed job wrote."""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 1
    return done.stderr.splitlines()


def said_by_stream(
    numbers: PodCluster, directory: Path, columns: str, value: float, collect: str
) -> list[str]:
    (directory / "in").mkdir()
    (directory / "in" / "rows.json").write_text(json.dumps({"key": "a", "value": value}))
    return said(STREAM, numbers.url, str(directory), columns, collect)


def first(lines: list[str], part: str) -> int:
    return next(number for number, line in enumerate(lines) if part in line)


@pytest.mark.parametrize("collect", ["always", "never"])
def test_a_column_of_the_wrong_type_ends_a_stream_with_one_line_before_all_traces(
    numbers: PodCluster, tmp_path: Path, collect: str
) -> None:
    lines = said_by_stream(numbers, tmp_path, "key string, value double", 1.5, collect)
    line = first(lines, WRONG_TYPE)
    assert lines[line] == f"batch 0 of store words: {WRONG_TYPE}"
    assert line < first(lines, "ERROR")
    # The frames of the sink are left out of the traces, and no task has run.
    assert not any("_write_batch" in one or "ERROR Executor" in one for one in lines)


def test_a_value_that_does_not_fit_is_told_before_the_traces_of_the_executor(
    numbers: PodCluster, tmp_path: Path
) -> None:
    lines = said_by_stream(numbers, tmp_path, "key string, value long", 2**40, "never")
    told = [number for number, line in enumerate(lines) if line.startswith("batch 0 of store")]
    assert all(WRONG_VALUE in lines[number] for number in told)
    assert told[0] < first(lines, "ERROR Executor")
    assert told[-1] < first(lines, "ERROR MicroBatchExecution")
    assert len(told) == 2


def test_a_column_of_the_wrong_type_ends_a_batch_job_before_any_task_with_the_line_at_the_end(
    numbers: PodCluster,
) -> None:
    lines = said(BATCH, numbers.url)
    after = lines[max(at for at, line in enumerate(lines) if WRONG_TYPE in line) + 1 :]
    # Spark and Java may log that they end; no trace comes behind the line.
    assert not any(line.startswith(("\tat ", "  File ")) for line in after), after
    assert not any("ERROR Executor" in line for line in lines)
