"""A program that is told to stop while it is still imported ends at once, also as process 1."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from qss_testing.waiting import wait_until

_ENDED_BY_SIGTERM = 128 + signal.SIGTERM
_STANDS_STILL = """
import os, signal
open(os.environ["BEGUN"], "w").close()
while True:
    signal.pause()
"""

_DROPS_EXCEPTIONS = """
import os, signal, weakref
class Lock: pass
def unlock(_):
    os.kill(os.getpid(), signal.SIGTERM)
    while True: pass
lock = Lock()
held = weakref.ref(lock, unlock)
del lock
"""


@pytest.mark.parametrize(
    ("program", "imports"), [("qss_store", "uvloop"), ("qss_operator", "kopf")]
)
def test_a_program_that_still_imports_ends_when_it_is_told_to_stop(
    tmp_path: Path, program: str, imports: str
) -> None:
    """A library that is never imported to its end stands for one that takes a second."""
    begun = tmp_path / "begun"
    (tmp_path / f"{imports}.py").write_text(_STANDS_STILL)
    paths = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    first = ("unshare", "--pid", "--fork", "--kill-child") if os.geteuid() == 0 else ()
    process = subprocess.Popen(
        [*first, sys.executable, "-P", "-m", program],
        env={**os.environ, "PYTHONPATH": paths, "BEGUN": str(begun)},
    )
    try:
        wait_until(begun.exists)
        inner = process.pid
        if first:
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
            inner = int(children.read_text())
        os.kill(inner, signal.SIGTERM)
        assert process.wait(100) == _ENDED_BY_SIGTERM
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("program", "imports"), [("qss_store", "uvloop"), ("qss_operator", "kopf")]
)
def test_a_program_ends_where_the_import_drops_the_exception(
    tmp_path: Path, program: str, imports: str
) -> None:
    """Each lock of an import has such a callback; what it raises is printed and dropped."""
    (tmp_path / f"{imports}.py").write_text(_DROPS_EXCEPTIONS + _STANDS_STILL)
    paths = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", program],
        env={**os.environ, "PYTHONPATH": paths, "BEGUN": str(tmp_path / "begun")},
    )
    try:
        assert process.wait(100) == _ENDED_BY_SIGTERM
    finally:
        process.kill()
        process.wait()
