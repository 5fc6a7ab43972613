"""Processes that are signalled by the pid and the start time that were written down."""

import os
import signal
import subprocess
import sys
import threading

from qss_client.processes import ProcessId, identify
from qss_operator.local.processes import signal_process


def test_a_pid_that_is_a_thread_by_now_is_no_process() -> None:
    """The pid of a pod that was killed may be used again for a thread of any program."""
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        assert thread.native_id is not None
        assert thread.native_id != os.getpid()
        assert not signal_process(ProcessId(pid=thread.native_id, started="then"), signal.SIGKILL)
    finally:
        done.set()
        thread.join()


def test_a_process_is_signalled_only_under_its_own_start_time() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        process = identify(child.pid)
        assert process is not None
        other = ProcessId(pid=child.pid, started="then")
        assert not signal_process(other, signal.SIGKILL)
        assert child.poll() is None
        assert signal_process(process, signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL
    assert not signal_process(process, signal.SIGKILL)
