"""Ends a program that is told to stop before it has begun.

The first process of a container ignores SIGTERM until it has a handler. A pod that was drained
while its program was still being imported stood there until Kubernetes killed it, a minute later.
"""

import signal
from types import FrameType

_ENDED_BY_SIGTERM = 128 + signal.SIGTERM


def end_at_once_if_told_to_stop() -> None:
    """Until the program has a handler of its own, SIGTERM ends the process: nothing has begun."""
    signal.signal(signal.SIGTERM, _end)


def _end(_number: int, _frame: FrameType | None) -> None:
    raise SystemExit(_ENDED_BY_SIGTERM)
