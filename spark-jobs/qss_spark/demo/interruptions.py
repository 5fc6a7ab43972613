"""What interrupts the demo: Ctrl-C, a polite end, the end of its terminal; and what nobody may."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_POLITE = (signal.SIGTERM, signal.SIGHUP)


def interrupt_on_polite_ends() -> None:
    """SIGTERM and the end of the terminal do what Ctrl-C does: KeyboardInterrupt."""
    for number in _POLITE:
        signal.signal(number, signal.default_int_handler)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """An impatient second Ctrl-C leaves no pods behind. Beside the main thread it does nothing."""
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
