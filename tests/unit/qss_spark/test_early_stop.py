"""A worker ends silently when Spark wants no answer of it, and reports every other error."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.spark

READS = """
import pickle
from pyspark import TaskContext
from qss_spark.source.reader import StoreReader

TaskContext._setTaskContext(TaskContext())
reader = StoreReader.__new__(StoreReader)
reader.is_made = True
pickle.loads(pickle.dumps(reader))  # As it comes to a task.
"""
STAGES = """
import pickle
from pyspark import TaskContext
from qss_spark.sink.batch_writer import StoreWriter

TaskContext._setTaskContext(TaskContext())
writer = StoreWriter.__new__(StoreWriter)
writer.is_made = True
pickle.loads(pickle.dumps(writer))  # As it comes to a task.
"""
PLANS = """
import pyspark.sql.worker.write_into_data_source
from pyspark.sql.types import StructType
from qss_core.errors import UnknownParameterError
from qss_spark.source.datasource import QueryableStateSource

try:
    QueryableStateSource({"unknown": "1"}).writer(StructType(), overwrite=False)
except UnknownParameterError:
    pass
"""
# The writing code belongs to the module in argv[1]; the program ends like PySpark's daemon.
WRITES = """
import socket, sys, types
here, there = socket.socketpair()
there.close()
module = {"__spec__": types.SimpleNamespace(name=sys.argv[1]), "here": here}
exec('''
def flush():
    here.send(b"x")

def write():
    try:
        flush()
    finally:
        flush()
''', module)
module["write"]()
"""


def run(package: str, does: str = READS) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", does + WRITES, package], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("does", [READS, STAGES, PLANS], ids=["reads", "stages", "plans"])
def test_a_worker_whose_answer_is_not_wanted_ends_quietly(does: str) -> None:
    ended = run("pyspark.daemon", does)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_other_code_that_writes_to_a_closed_socket_fails_as_before() -> None:
    ended = run("users.code")
    assert ended.returncode == 1
    assert "BrokenPipeError" in ended.stderr
