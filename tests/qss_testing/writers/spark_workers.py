"""Starts Spark's Python workers as forks of a process with all imports done.

Spark's own daemon imports after the fork, since a user's modules may start threads. That takes a
second of CPU for each worker, and Spark starts workers for each plan of a data source. Spark runs
this program with the worker's module: as `spark.python.daemon.module` for tasks, and for plans,
which have Spark's own daemon, where `spark_python` stands for Python.
"""

import gc
import importlib
import os
import sys
from pathlib import Path

from pyspark.daemon import manager

# jemalloc restarts this thread after a fork.
_FORKABLE = {"jemalloc_bg_thd"}
_MODULES = ("pyspark_queryablestate", "qss_spark")
# The workers of tasks have these as well; those that plan for a data source do not.
_MODULES_OF_TASKS = ("pandas", "pyarrow", "pyspark.sql.pandas.serializers")


def main() -> None:
    """Runs Spark's daemon after all imports."""
    worker = sys.argv[1]
    of_tasks = _MODULES_OF_TASKS if worker == "pyspark.worker" else ()
    for module in (*of_tasks, *_MODULES, worker):
        importlib.import_module(module)
    tasks = Path("/proc/self/task").iterdir()
    threads = {(one / "comm").read_text().strip() for one in tasks if int(one.name) != os.getpid()}
    assert threads <= _FORKABLE, f"threads would be lost in the forks: {threads}"
    gc.freeze()  # A worker runs the garbage collector after each task.
    manager()


if __name__ == "__main__":
    main()
