"""Commands that do not outlive the program that runs them, not even when it is killed."""

import os
import subprocess
import sys
from typing import Any

# PR_SET_PDEATHSIG (1) with SIGTERM (15) outlives exec. A parent may have ended before it is set.
_LAUNCH = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 15, 0, 0, 0)
if os.getppid() != int(sys.argv[1]):
    sys.exit(1)
os.execvp(sys.argv[2], sys.argv[2:])
"""


def ending_with_its_parent(command: list[str]) -> list[str]:
    """The command, ended by the kernel with the thread that starts it.

    A launcher asks for that, and becomes the command: what runs between fork and exec in a program
    with threads may hang. It costs 20 ms. Without Linux, and in a program that does not know its
    own Python, the command stays as it is.
    """
    if not sys.platform.startswith("linux") or not sys.executable:
        return command
    return [sys.executable, "-ISc", _LAUNCH, str(os.getpid()), *command]


def started(command: list[str], **options: Any) -> "subprocess.Popen[str]":
    """Starts such a command; what it says, errors too, is read from its `stdout`.

    `options` are of Popen.
    """
    return subprocess.Popen(
        ending_with_its_parent(command),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **options,
    )
