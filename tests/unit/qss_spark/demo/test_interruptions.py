"""The demo stops its processes in order after any signal, and no second signal interrupts that."""

import subprocess
import sys

import pytest

PROGRAM = """
import signal, sys
from qss_spark.demo.interruptions import interrupt_on_polite_ends, uninterrupted

signal.signal(signal.SIGINT, signal.default_int_handler)  # A shell's background job has none.
interrupt_on_polite_ends()
try:
    try:
        signal.raise_signal(getattr(signal, sys.argv[1]))
    finally:
        with uninterrupted():
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.raise_signal(number)
            print("stopped the pods")
except KeyboardInterrupt:
    print("interrupted once")
try:
    signal.raise_signal(signal.SIGHUP)
except KeyboardInterrupt:
    print("interrupted again")
"""


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_whatever_ends_the_demo_it_stops_its_pods_undisturbed(number: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, number],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.splitlines() == ["stopped the pods", "interrupted once", "interrupted again"]
