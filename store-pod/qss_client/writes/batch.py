"""The writer's half of a batch: open, stage, commit, abort, renew, with retries.

The shell of `exchanges` for programs without an event loop. A request is repeated, and a lost
answer asked for again, until the deadline of the limits.
"""

import logging
import time
import uuid
from collections.abc import Iterable, Sequence
from typing import assert_never

from qss_client.addresses import Urls, checked_urls
from qss_client.chunks.chunk import Slice
from qss_client.http.answer import HttpAnswer
from qss_client.http.first_contact import first_answer
from qss_client.http.retries import RetryAt, RetryLimits
from qss_client.http.sync_http import Retrier, SyncHttp
from qss_client.http.wait_warnings import WaitWarnings
from qss_client.writes import exchanges
from qss_client.writes.exchanges import Run, Staged
from qss_client.writes.steps import Exchange, ExchangeStep, Pause, PodRequest, Result
from qss_core.errors import StoreError
from qss_core.positions import PositionJson
from qss_core.wire.messages import AbortAnswer, CommitAnswer, StoreMetadata

__all__ = [
    "WRITE_LIMITS",
    "Run",
    "Staged",
    "abort",
    "commit",
    "discover",
    "open_writer",
    "renew",
    "stage",
    "write_batch",
]

_LOG = logging.getLogger(__name__)
WRITE_LIMITS = RetryLimits(deadline_s=120.0)


def discover(http: SyncHttp, url: Urls, store: str, limits: RetryLimits) -> StoreMetadata:
    """The store's pods and partitions; `url` is the query or internal port of one or more pods.

    Raises MalformedRequestError for an invalid URL, and UnreachableError if no pod answers within
    `limits.first_contact_s`.
    """
    return first_answer(
        lambda base, timeout_s, telling: http.get(
            f"{base}/state/instances/{store}", StoreMetadata, timeout_s, telling
        ),
        checked_urls(url),
        store,
        limits,
    )


def open_writer(
    http: SyncHttp,
    metadata: StoreMetadata,
    writer: str,
    *,
    query_id: str,
    run_id: str,
    take_over: bool = False,
    one_off: bool = False,
    limits: RetryLimits = WRITE_LIMITS,
) -> Run:
    """Opens the writer for a run of its query.

    Raises OtherCheckpointError, StaleWriterError, and MalformedRequestError for an invalid name.
    """
    exchange = exchanges.open_writer(
        metadata,
        writer,
        query_id=query_id,
        run_id=run_id,
        open_id=uuid.uuid4().hex,
        take_over=take_over,
        one_off=one_off,
    )
    return _run(http, exchange, limits)


def stage(
    http: SyncHttp,
    run: Run,
    batch: int,
    task: str,
    slices: Iterable[Slice],
    limits: RetryLimits = WRITE_LIMITS,
) -> list[Staged]:
    """Stages a task attempt's slices on the actives; `task` is unique among the run's attempts.

    Returns when all in-sync replicas have logged every slice. Raises BatchClosedError for a batch
    that was applied: `commit` then returns the coordinator's result.
    """
    return _run(http, exchanges.stage(run, batch, task, slices), limits)


def commit(
    http: SyncHttp,
    run: Run,
    batch: int,
    staged: Sequence[Staged],
    *,
    position: PositionJson,
    fingerprint: str,
    replace: bool = False,
    limits: RetryLimits = WRITE_LIMITS,
) -> CommitAnswer:
    """Commits the winners' slices, in this order; answers when all partitions have applied them."""
    exchange = exchanges.commit(
        run, batch, staged, position=position, fingerprint=fingerprint, replace=replace
    )
    return _run(http, exchange, limits)


def write_batch(
    http: SyncHttp,
    run: Run,
    batch: int,
    rows: Sequence[Slice],
    *,
    position: PositionJson,
    fingerprint: str,
    replace: bool = False,
    limits: RetryLimits = WRITE_LIMITS,
) -> CommitAnswer:
    """Commits a small batch with its rows in one request, at most one slice a partition.

    It is as exactly-once as `stage` and `commit`: the decision carries the rows. Raises
    TooLargeError if they exceed `CARRIED_BYTES_MAX` less 64 KiB.
    """
    exchange = exchanges.write_batch(
        run, batch, rows, position=position, fingerprint=fingerprint, replace=replace
    )
    return _run(http, exchange, limits)


def abort(http: SyncHttp, run: Run, batch: int, limits: RetryLimits = WRITE_LIMITS) -> AbortAnswer:
    """Gives the batch up and closes the run; nothing happens to a batch that was decided."""
    return _run(http, exchanges.abort(run, batch), limits)


def renew(http: SyncHttp, run: Run, limits: RetryLimits = WRITE_LIMITS) -> None:
    """Keeps the run open; the coordinator closes one that is silent for an hour."""
    _run(http, exchanges.renew(run), limits)


def _run(http: SyncHttp, exchange: Exchange[Result], limits: RetryLimits) -> Result:
    """The result of an exchange; its pauses share one deadline.

    After a warning of a wait it says that the wait is over.
    """
    retrier = Retrier(limits)
    try:
        step = next(exchange)
        while True:
            try:
                outcome = _outcome(http, retrier, step)
            except StoreError as error:
                step = exchange.throw(error)
            else:
                step = exchange.send(outcome)
    except StopIteration as end:
        if retrier.telling.is_told:
            _LOG.warning("the store answers again after %.0f s", retrier.elapsed_s)
        result: Result = end.value
        return result


def _outcome(http: SyncHttp, retrier: Retrier, step: ExchangeStep) -> HttpAnswer | RetryAt:
    match step:
        case PodRequest():
            telling = WaitWarnings.begun(time.monotonic(), step.tell_after_s)
            try:
                return http.request(
                    step.method,
                    step.url,
                    body=step.body,
                    headers=step.headers,
                    timeout_s=step.timeout_s,
                    connect_timeout_s=step.connect_timeout_s,
                    telling=telling,
                )
            finally:
                retrier.telling.is_told |= telling.is_told
        case Pause():
            return retrier.after(step.failure)
        case _:
            assert_never(step)
