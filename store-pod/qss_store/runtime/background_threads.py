"""Threads for work that nobody waits for: they give way to the thread that answers reads.

Linux divides a core by the niceness of its threads. With few cores the threads of a copy would
otherwise hold up the event loop for as long as one of the system's time slices, some milliseconds.
Other systems have one niceness for a process, and the number of a thread may be another process's.
"""

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

_NICER, _NICEST = 10, 19
_THREADS = 8  # Two files of each copy that a pod makes at a time, and those that end.


def _give_way() -> None:
    thread = threading.get_native_id()
    with suppress(OSError):  # A container may forbid it: then all threads count alike.
        niceness = os.getpriority(os.PRIO_PROCESS, thread) + _NICER
        os.setpriority(os.PRIO_PROCESS, thread, min(_NICEST, niceness))


def background_threads(name: str, platform: str = sys.platform) -> ThreadPoolExecutor:
    """Makes threads with this name, which give way to all others; the first work starts them."""
    initializer = _give_way if platform == "linux" else None
    return ThreadPoolExecutor(_THREADS, thread_name_prefix=name, initializer=initializer)
