"""Ends a worker quietly when Spark no longer needs its answer.

If Spark takes only some rows of a reader (`limit`, `show`), the worker writes the others into a
closed socket; so does a worker that has told its error while it planned or wrote. That is harmless,
but PySpark prints a traceback, behind the error that a person should see.
"""

import os
import signal
import sys
import threading
from types import FrameType

from pyspark import TaskContext


def end_quietly_when_stopped() -> None:
    """In a worker of Spark: ends the process when PySpark writes to a closed socket.

    Other code still gets BrokenPipeError, since the process may run other tasks.
    """
    is_worker = TaskContext.get() is not None or any(map(_plans, sys.modules))
    if not is_worker or threading.current_thread() is not threading.main_thread():
        return
    signal.signal(signal.SIGPIPE, _end_where_spark_writes)


def _plans(module: str) -> bool:
    """Whether only a worker that plans with a data source has this module."""
    return module.startswith("pyspark.sql.worker.")


def _end_where_spark_writes(_: int, frame: FrameType | None) -> None:
    if is_of_spark(frame):
        os._exit(0)


def is_of_spark(frame: FrameType | None) -> bool:
    """Whether the innermost code outside the standard library is PySpark's."""
    while frame is not None:
        # `__name__` is no help: the daemon runs as `__main__`.
        spec = frame.f_globals.get("__spec__")
        package = "" if spec is None else spec.name.partition(".")[0]
        if package not in sys.stdlib_module_names:
            return package == "pyspark"
        frame = frame.f_back
    return False
