"""A worker ends silently when Spark wants no more rows, and reports every other error."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.spark

# The writing code belongs to the module in argv[1]; the program ends like PySpark's daemon.
PROGRAM = """
import pickle, socket, sys, types
from pyspark import TaskContext
from qss_spark.source.reader import StoreReader

TaskContext._setTaskContext(TaskContext())
reader = StoreReader.__new__(StoreReader)
reader.is_made = True
pickle.loads(pickle.dumps(reader))  # As it comes to a task.
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


def run(package: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, package], capture_output=True, text=True, check=False
    )


def test_a_worker_whose_rows_are_not_wanted_ends_quietly() -> None:
    ended = run("pyspark.daemon")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_other_code_that_writes_to_a_closed_socket_fails_as_before() -> None:
    ended = run("users.code")
    assert ended.returncode == 1
    assert "BrokenPipeError" in ended.stderr
