"""Signals that interrupt the demo, and blocks that no signal interrupts."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_POLITE = (signal.SIGTERM, signal.SIGHUP)


def interrupt_on_polite_ends() -> None:
    """Makes SIGTERM and the end of the terminal raise KeyboardInterrupt, as Ctrl-C does."""
    for number in _POLITE:
        signal.signal(number, signal.default_int_handler)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ignores a second Ctrl-C, so that pods are stopped; it has no effect in other threads."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGINT, *_POLITE)
    handlers = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
