"""A pod's process configures the Python interpreter."""

import subprocess
import sys

PROGRAM = """
import gc, sys
from qss_store.runtime.process.interpreter import tune_interpreter
tune_interpreter()
print(sys.getswitchinterval() < 0.001, gc.get_threshold()[0] > 10_000, gc.get_freeze_count() > 0)
"""


def test_the_event_loop_does_not_wait_long_for_another_thread() -> None:
    told = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert told.stdout == "True True True\n"
