"""Keeps runs open: the store closes a run that is silent for an hour.

A thread of the sink renews the run of a query. Spark runs the data source of a batch job in workers
alone, one call after the other, so the tasks of such a job renew its run.
"""

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from qss_client.http.retries import RetryLimits
from qss_client.http.sync_http import SyncHttp
from qss_client.writes.batch import WRITE_LIMITS, Run, renew
from qss_core.errors import StaleWriterError, StoreError, UnknownWriterError
from qss_spark.options import SinkBatch

_LOG = logging.getLogger(__name__)
_RENEW_INTERVAL_S = 60.0


def may_go_on(http: SyncHttp, run: Run, limits: RetryLimits = WRITE_LIMITS) -> bool:
    """Renews a run. Returns whether it may still be open: False where the store has closed it.

    After any other failure the run is renewed again later: a store that was away for minutes comes
    back long before it closes a run.
    """
    try:
        renew(http, run, limits)
    except (StaleWriterError, UnknownWriterError) as error:
        _LOG.warning("the writer is no longer open: %s", error.code)
        return False
    except StoreError as error:
        _LOG.warning("the writer was not renewed, and will be asked again: %s", error.code)
    return True


@contextmanager
def kept_open(http: SyncHttp, batch: SinkBatch) -> Iterator[None]:
    """Renews the run of a batch job at once and then each minute, until the block ends.

    At once, since the tasks of a long job may all be short. A renewal delays no task and fails
    none: where the run is closed, the commit says so.
    """
    if not batch.one_off:
        yield
        return
    ended = threading.Event()
    threading.Thread(
        target=_renew, args=(http, batch.run, ended), name="qss-keep-open", daemon=True
    ).start()
    try:
        yield
    finally:
        ended.set()


def _renew(http: SyncHttp, run: Run, ended: threading.Event) -> None:
    # A connection that a pod has closed raises SIGPIPE. The handler of `early_stop` would take that
    # for a closed socket of Spark, by the code that the main thread runs at that moment.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGPIPE})
    while not ended.is_set() and may_go_on(http, run):
        ended.wait(_RENEW_INTERVAL_S)
