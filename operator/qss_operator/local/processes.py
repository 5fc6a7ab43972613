"""Signals processes of this machine, and ends children with their parent.

A pid may be used again for another process. So a process is signalled through a descriptor that was
opened before its start time was compared.
"""

import asyncio
import ctypes
import errno
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from qss_client.processes import IS_LINUX, ProcessId, is_alive

_PR_SET_PDEATHSIG = 1
_POLL_S = 0.05
# The pid is no process now; the second and the third one where it is a thread, by the kernel.
_NO_PROCESS = (errno.ESRCH, errno.ENOENT, errno.EINVAL)


def is_suspended(process: ProcessId) -> bool:
    """Whether a living process does nothing until it gets SIGCONT; known on Linux alone."""
    if not (IS_LINUX and is_alive(process)):
        return False
    try:
        stat = Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] in "Tt"


def signal_process(process: ProcessId, number: signal.Signals) -> bool:
    """Signal exactly this process; False if it has ended."""
    if not IS_LINUX:
        if not is_alive(process):
            return False
        with suppress(ProcessLookupError):
            os.kill(process.pid, number)
        return True
    try:
        descriptor = os.pidfd_open(process.pid)
    except OSError as error:
        if error.errno not in _NO_PROCESS:
            raise
        return False
    try:
        # From here on the pid cannot be used again unnoticed.
        if not is_alive(process):
            return False
        signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(descriptor)
    return True


async def end_process(process: ProcessId, grace_s: float) -> bool:
    """End a process that is not a child: SIGTERM, and SIGKILL after the grace period.

    Returns whether it was running. It polls, since only a parent is notified of an end. A suspended
    process takes SIGTERM only after SIGCONT, which any other process ignores.
    """
    if not signal_process(process, signal.SIGTERM):
        return False
    signal_process(process, signal.SIGCONT)
    if not await _gone_within(process, grace_s):
        signal_process(process, signal.SIGKILL)
        await _gone_within(process, grace_s)
    return True


async def _gone_within(process: ProcessId, timeout_s: float) -> bool:
    for _ in range(int(timeout_s / _POLL_S)):
        if not is_alive(process):
            return True
        await asyncio.sleep(_POLL_S)
    return not is_alive(process)


async def start_child(
    command: Sequence[str], output: IO[bytes], environment: Mapping[str, str]
) -> asyncio.subprocess.Process:
    """Start a process that ends when this process ends in any way; `environment` is added.

    It gets its own session, so that Ctrl-C reaches only this process, which stops its children in
    order.
    """
    return await asyncio.create_subprocess_exec(
        *command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        env=os.environ | environment,
        start_new_session=True,
        preexec_fn=_end_with_parent(os.getpid()) if IS_LINUX else None,
    )


def _end_with_parent(parent: int) -> Callable[[], None]:
    # Look it up before the fork: in the child only system calls are safe. The kernel takes the
    # thread that forked, which has the event loop, for the parent.
    prctl = ctypes.CDLL(None).prctl

    def in_child() -> None:
        prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
        if os.getppid() != parent:
            # The parent ended before prctl was called.
            os._exit(1)

    return in_child
