"""Ends a worker without a word when Spark no longer wants the rows that it writes.

A reader of which Spark takes only some rows (`limit`, `show`) writes the others into a closed
socket: harmless, but PySpark prints a traceback of it for each partition.
"""

import os
import signal
import sys
import threading
from types import FrameType

from pyspark import TaskContext


def end_quietly_when_stopped() -> None:
    """In the process of a task: ends it where PySpark itself writes to a closed socket.

    Other code that does so gets its BrokenPipeError, as before: the process may run other tasks.
    """
    if TaskContext.get() is None or threading.current_thread() is not threading.main_thread():
        return
    signal.signal(signal.SIGPIPE, _end_where_spark_writes)


def _end_where_spark_writes(_: int, frame: FrameType | None) -> None:
    if is_of_spark(frame):
        os._exit(0)


def is_of_spark(frame: FrameType | None) -> bool:
    """Whether the innermost code, the standard library aside, is PySpark's."""
    while frame is not None:
        # `__name__` is no help: the daemon is run as `__main__`.
        spec = frame.f_globals.get("__spec__")
        package = "" if spec is None else spec.name.partition(".")[0]
        if package not in sys.stdlib_module_names:
            return package == "pyspark"
        frame = frame.f_back
    return False
