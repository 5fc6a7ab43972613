"""Finds whether a published status still holds: its `qss up` may have ended, or not renewed it.

Each round of a store that ends without a failure renews the time of a file. A file has room for a
new time also on a full disk, and a status that is still true need not be written again.
"""

import os
from datetime import timedelta

from qss_client.clock import SystemClock
from qss_core.model import StoreName
from qss_operator.local.directory.state import StateDirectory
from qss_operator.local.processes import is_suspended
from qss_operator.planning.model import StoreStatus
from qss_operator.planning.status import old_status, stopped_status
from qss_operator.times import time_of, utc

# Rounds of a healthy process are at most 5 s apart, and wait some seconds for silent pods.
_RENEWED_WITHIN = timedelta(seconds=10)
_FREE_BYTES_MIN = 64 * 1024


def present_status(state: StateDirectory, name: StoreName) -> StoreStatus:
    """The status that holds now: a run that was killed has not published that it stopped."""
    status = state.read_status(name) or StoreStatus()
    if name not in state.running():
        return stopped_status(status, time_of(utc(SystemClock())))
    return unless_old(state, name, status)


def unless_old(state: StateDirectory, name: StoreName, status: StoreStatus) -> StoreStatus:
    """The status of a store that runs; with an unknown health where it was not renewed."""
    renewed = state.renewed_at(name)
    why = why_old(state, name)
    if renewed is None or why is None:
        return status
    return old_status(status, why, time_of(renewed))


def why_old(state: StateDirectory, name: StoreName) -> str | None:
    """Why the status of a running store says nothing about the present; None where it does."""
    renewed = state.renewed_at(name)
    # The clock may have been set back, too.
    if renewed is None or abs(utc(SystemClock()) - renewed) <= _RENEWED_WITHIN:
        return None
    return f"the status was last renewed at {time_of(renewed)}: {_hindrance(state)}"


def why_waits(state: StateDirectory, name: StoreName) -> str | None:
    """Why a running store does not take a change now; a suspended process is seen at once."""
    holder = state.holder()
    if holder and is_suspended(holder):
        return _hindrance(state)
    return why_old(state, name)


def _hindrance(state: StateDirectory) -> str:
    holder = state.holder()
    process = f"`qss up` (process {holder.pid})" if holder else "`qss up`"
    if holder and is_suspended(holder):
        return f"{process} is suspended and does not answer; `kill -CONT {holder.pid}` resumes it"
    if _is_full(state):
        return (
            f"the disk of {state.path.absolute()} is full, so {process} cannot write: free some "
            "MiB for reads, and more than 64 MiB for batches"
        )
    return f"{process} does not answer, or fails: its output says why ({state.up_log} if detached)"


def _is_full(state: StateDirectory) -> bool:
    try:
        volume = os.statvfs(state.path)
    except OSError:
        return False
    has_no_inode = volume.f_files > 0 and volume.f_favail == 0
    return volume.f_bavail * volume.f_frsize < _FREE_BYTES_MIN or has_no_inode
