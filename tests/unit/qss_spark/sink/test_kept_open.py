"""Runs stay open while a query or a batch job goes on, also after a store was away."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import closing

import pyarrow as pa
import pytest
from aiohttp import web
from msgspec.structs import replace

from qss_client.http.retries import RetryLimits
from qss_client.http.sync_http import SyncHttp
from qss_client.writes.batch import Run
from qss_core.errors import (
    NotReadyError,
    StaleWriterError,
    StoreError,
    UnauthenticatedError,
    UnknownWriterError,
)
from qss_core.wire.messages import RenewAnswer, WriterOpened, encode, problem_of
from qss_spark.options import Access, SinkBatch
from qss_spark.rows import Columns
from qss_spark.sink.batch_steps import stage_task
from qss_spark.sink.kept_open import may_go_on
from qss_testing.fakes.strange_pods import pod_that
from qss_testing.writers.exchange_steps import metadata, opened

_WAIT_S = 5.0
_BRIEF = RetryLimits(deadline_s=0.1)


def opened_at(url: str) -> WriterOpened:
    """The answer to the opening of a writer by a store whose pods have one address."""
    known = metadata(0)
    pods = tuple(replace(one, changelog=url) for one in known.instances)
    return opened(replace(known, instances=pods))


async def renewals_of(*, one_off: bool, until: Callable[[threading.Event], object]) -> list[str]:
    """The paths that a task without rows asks for while its input waits for `until`."""
    asked: list[str] = []
    renewed = threading.Event()

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.path)
        renewed.set()
        return web.Response(body=encode(RenewAnswer(closes_after_s=3600.0)))

    def rows() -> Iterator[pa.RecordBatch]:
        until(renewed)
        yield from ()

    async with pod_that(answer) as url:
        batch = SinkBatch(
            store="words",
            writer="batch-1",
            opened=opened_at(url),
            batch=0,
            position={},
            fingerprint="f",
            replace=False,
            one_off=one_off,
        )
        made = await asyncio.to_thread(stage_task, batch, Columns(), Access(), rows())
    assert made.staged == []
    return asked


async def test_a_task_of_a_batch_job_renews_its_run_while_it_computes() -> None:
    asked = await renewals_of(one_off=True, until=lambda renewed: renewed.wait(_WAIT_S))
    assert asked == ["/changelog/stores/words/writers/batch-1/1000001/renew"]


async def test_a_task_of_a_query_sends_no_renewal() -> None:
    assert await renewals_of(one_off=False, until=lambda _: None) == []


@pytest.mark.parametrize(
    ("error", "goes_on"),
    [
        (NotReadyError("recovering"), True),
        (UnauthenticatedError("the token has ended"), True),
        (StaleWriterError("a younger run has opened"), False),
        (UnknownWriterError("deleted"), False),
    ],
)
async def test_only_a_run_that_the_store_has_closed_is_renewed_no_more(
    error: StoreError, goes_on: bool
) -> None:
    async def refuse(request: web.Request) -> web.Response:
        return web.Response(status=error.http_status, body=encode(problem_of(error)))

    async with pod_that(refuse) as url:
        run = Run("words", "job", opened_at(url))
        with closing(SyncHttp()) as http:
            assert await asyncio.to_thread(may_go_on, http, run, _BRIEF) is goes_on
