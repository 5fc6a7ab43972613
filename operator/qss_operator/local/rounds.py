"""The loop of one local store: runs a round, then waits for a pause or a change of its pods."""

import logging
from collections.abc import Awaitable, Callable

from qss_core.errors import StoreError
from qss_core.model import StoreName
from qss_operator.errors import ConflictError
from qss_operator.reconcile.reconciler import Intervals

logger = logging.getLogger(__name__)

_FAILING_MAX_S = 5.0  # After failures of the same kind the pauses become longer.


async def run_rounds(
    store: StoreName,
    run_round: Callable[[], Awaitable[bool | None]],
    wait: Callable[[StoreName, float], Awaitable[None]],
    intervals: Intervals,
) -> None:
    """Runs rounds until a round finds no resource (None), or the task is cancelled.

    `wait` returns when a pod of the store has started or ended, or after a timeout.
    """
    failed: str | None = None
    pause_s = intervals.unsettled_s
    while True:
        try:
            is_settled = await run_round()
        except ConflictError:
            pause_s = intervals.unsettled_s  # The next round reads the resource as it is then.
        except Exception as error:  # noqa: BLE001 one bad round must not be the last one.
            if failed != str(error):
                _log_failure(store, error)
                pause_s = intervals.unsettled_s
            failed = str(error)
            pause_s = min(2 * pause_s, _FAILING_MAX_S)
        else:
            if is_settled is None:
                return
            failed = None
            pause_s = intervals.settled_s if is_settled else intervals.unsettled_s
        await wait(store, pause_s)


def _log_failure(store: StoreName, error: Exception) -> None:
    """Logs the failure of a round; repetitions of it are not logged."""
    if isinstance(error, StoreError):
        logger.warning("%s: %s: %s", store, error.code, error.message)
    else:
        logger.error("%s: a round failed", store, exc_info=error)
