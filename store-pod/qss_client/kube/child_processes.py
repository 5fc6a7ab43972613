"""Child processes that end with their parent, even if the parent is killed."""

import os
import subprocess
import sys
from typing import Any

# PR_SET_PDEATHSIG (1) with SIGTERM (15) survives exec. The parent may end before it is set.
_LAUNCH = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 15, 0, 0, 0)
if os.getppid() != int(sys.argv[1]):
    sys.exit(1)
os.execvp(sys.argv[2], sys.argv[2:])
"""


def ending_with_its_parent(command: list[str]) -> list[str]:
    """The command, changed so that the kernel ends it with the thread that starts it.

    A launcher makes that system call, and then executes the command: code between fork and exec may
    hang in a program with threads. It costs 20 ms. Outside Linux, and in a program that does not
    know its own Python, the command stays unchanged.
    """
    if not sys.platform.startswith("linux") or not sys.executable:
        return command
    return [sys.executable, "-ISc", _LAUNCH, str(os.getpid()), *command]


def started(command: list[str], **options: Any) -> "subprocess.Popen[str]":
    """Starts such a command; its `stdout` has its output and its errors.

    `options` are those of Popen.
    """
    return subprocess.Popen(
        ending_with_its_parent(command),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **options,
    )
