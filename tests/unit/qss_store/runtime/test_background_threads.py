"""Threads that give way to the thread that answers reads."""

import os
import threading

from qss_store.runtime.background_threads import background_threads


def niceness() -> int:
    """The niceness of the calling thread; Linux has one for each thread."""
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


def test_a_background_thread_gives_way_and_no_other_thread_does() -> None:
    before = niceness()
    with background_threads("copy") as threads:
        assert threads.submit(niceness).result() == min(19, before + 10)
        assert threads.submit(threading.current_thread).result().name.startswith("copy")
    assert niceness() == before


def test_other_systems_than_linux_know_no_niceness_of_a_thread() -> None:
    """The number of a thread may be that of another process there."""
    before = niceness()
    with background_threads("copy", platform="darwin") as threads:
        assert threads.submit(niceness).result() == before
