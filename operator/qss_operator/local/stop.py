"""Stops the processes of a state directory: the work of `qss down`. It imports little."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

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
_TELL_AFTER_S = 2.0


async def stop_stores(state: StateDirectory, tell: Callable[[str], None] = lambda _: None) -> int:
    """Stop the `qss up` of a state directory, and pods that were left behind.

    Returns the number of ended processes; none runs any more. Calls `tell` with what it waits for
    when it has waited for 2 s.
    """
    ended = 0
    while state.path.is_dir():
        try:
            with state.lock():
                left = "pods without a `qss up` end"
                ended += await _telling(end_leftovers(state), left, tell)
                for name in state.stores():
                    mark_stopped(state, name, time_of(utc(SystemClock())))
                return ended
        except AlreadyRunningError:
            holder = state.holder()
            if holder is None:
                # The `qss up` holds the lock, and has not begun or is ending.
                await asyncio.sleep(_WATCH_S)
            else:
                line = (
                    f"`qss up` (process {holder.pid}) ends its pods first, and is killed after "
                    f"{_DOWN_GRACE_S:g} s"
                )
                ended += await _telling(end_process(holder, _DOWN_GRACE_S), line, tell)
    return ended


async def _telling(ending: Coroutine[Any, Any, int], line: str, tell: Callable[[str], None]) -> int:
    task = asyncio.create_task(ending)
    done, _ = await asyncio.wait({task}, timeout=_TELL_AFTER_S)
    if not done:
        tell(line)
    return await task


def mark_stopped(state: StateDirectory, name: StoreName, now: str) -> None:
    """Publish that a store's pods were stopped; a failed write, or damage, is only logged."""
    try:
        status = state.read_status(name)
        if status is not None:
            state.write_status(name, stopped_status(status, now))
    except StateDirectoryError as error:
        _LOG.warning("the status of store %s could not be updated: %s", name, error.message)
