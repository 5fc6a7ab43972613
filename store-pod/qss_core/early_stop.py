"""Ends a program that is told to stop before it has begun.

The first process of a container ignores SIGTERM until it has a handler. A pod that was drained
while its program was still being imported stood there until Kubernetes killed it, a minute later.
"""

import atexit
import signal
from types import FrameType

_ENDED_BY_SIGTERM = 128 + signal.SIGTERM
_AGAIN_S = 0.05


def end_at_once_if_told_to_stop() -> None:
    """Until the program has a handler of its own, SIGTERM ends the process: nothing has begun."""
    signal.signal(signal.SIGTERM, _end)


def _end(_number: int, _frame: FrameType | None) -> None:
    # An exception that meets a callback of the import, or C code, is dropped: another one follows.
    signal.signal(signal.SIGALRM, _end)
    signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)
    atexit.register(signal.setitimer, signal.ITIMER_REAL, 0)  # The exception has come through.
    raise SystemExit(_ENDED_BY_SIGTERM)
