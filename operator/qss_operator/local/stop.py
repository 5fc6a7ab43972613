"""Stops the processes of a state directory: the work of `qss down`. It imports little."""

import asyncio
import logging

from qss_client.clock import SystemClock
from qss_core.model import StoreName
from qss_operator.errors import AlreadyRunningError, StateDirectoryError
from qss_operator.local.cluster import end_leftovers
from qss_operator.local.directory.state import StateDirectory
from qss_operator.local.processes import end_process
from qss_operator.planning.status import stopped_status
from qss_operator.times import time_of, utc

_LOG = logging.getLogger(__name__)
_WATCH_S = 0.1
_DOWN_GRACE_S = 30.0


async def stop_stores(state: StateDirectory) -> int:
    """Stop the `qss up` of a state directory, and pods that were left behind.

    Returns the number of ended processes; none runs any more.
    """
    ended = 0
    while state.path.is_dir():
        try:
            with state.lock():
                ended += await end_leftovers(state)
                for name in state.stores():
                    mark_stopped(state, name, time_of(utc(SystemClock())))
                return ended
        except AlreadyRunningError:
            holder = state.holder()
            if holder is None:
                # It holds the lock, and has not begun or is ending.
                await asyncio.sleep(_WATCH_S)
            else:
                ended += await end_process(holder, _DOWN_GRACE_S)
    return ended


def mark_stopped(state: StateDirectory, name: StoreName, now: str) -> None:
    """Publish that a store's pods were stopped; a failed write is only logged."""
    status = state.read_status(name)
    if status is None:
        return
    try:
        state.write_status(name, stopped_status(status, now))
    except StateDirectoryError as error:
        _LOG.warning("the status of store %s could not be updated: %s", name, error.message)
