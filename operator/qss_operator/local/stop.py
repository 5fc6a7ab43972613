"""Stops what runs in a state directory: what `qss down` does. It imports little, to be quick."""

import asyncio
import logging

from qss_core.model import StoreName
from qss_operator.clock import SystemClock, time_of
from qss_operator.errors import AlreadyRunningError, StateDirectoryError
from qss_operator.local.cluster import end_leftovers
from qss_operator.local.directory.state import StateDirectory
from qss_operator.local.processes import end_process
from qss_operator.planning.status import stopped_status

_LOG = logging.getLogger(__name__)
_WATCH_S = 0.1
_DOWN_GRACE_S = 30.0


async def stop_stores(state: StateDirectory) -> int:
    """Stop whoever runs the stores of a state directory, and pods that were left behind.

    Returns how many processes were ended; when it returns, none is left.
    """
    ended = 0
    while state.path.is_dir():
        try:
            with state.lock():
                ended += await end_leftovers(state)
                for name in state.stores():
                    mark_stopped(state, name, time_of(SystemClock().utc()))
                return ended
        except AlreadyRunningError:
            holder = state.holder()
            if holder is None:
                # It holds the lock and has not begun, or is just ending.
                await asyncio.sleep(_WATCH_S)
            else:
                ended += await end_process(holder, _DOWN_GRACE_S)
    return ended


def mark_stopped(state: StateDirectory, name: StoreName, now: str) -> None:
    """Publish that a store's pods were stopped; they were, also where that cannot be written."""
    status = state.read_status(name)
    if status is None:
        return
    try:
        state.write_status(name, stopped_status(status, now))
    except StateDirectoryError as error:
        _LOG.warning("the status of store %s still says what it was: %s", name, error.message)
