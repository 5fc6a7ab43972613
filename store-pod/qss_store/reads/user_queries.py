"""Custom query types: fold the rows of a built-in query to one result per partition.

Like every scan they read one state, in chunks with turns for other requests between them. An
exception of the user's code becomes the partition's failure; the pod continues.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import msgspec

from qss_client.clock import Clock
from qss_core.errors import MalformedRequestError, StoreError, TooLargeError
from qss_core.model import StoreDefinition
from qss_core.queries.types import decode_query
from qss_core.times import Times
from qss_store.reads.codec import Codec
from qss_store.reads.encode.json import JsonRows
from qss_store.reads.plans.dispatch import RowsPlan, plan_of
from qss_store.reads.routing.admission import Reading
from qss_store.reads.routing.scatter import deadline_exceeded
from qss_store.reads.scans.cursors import Piece
from qss_store.reads.scans.open_scan import RowScan, open_scan
from qss_store.reads.scans.replica_reads import CHUNK_ROWS_MAX
from qss_store.runtime.metrics import Metrics
from qss_store.runtime.plugins import PartitionQuery, QueryType

_LOG = logging.getLogger(__name__)
_ROWS: msgspec.json.Decoder[list[dict[str, Any]]] = msgspec.json.Decoder(list[dict[str, Any]])
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class FoldPlan:
    """A custom query type, and the plan of the rows that it reads."""

    name: str
    make: Callable[[], PartitionQuery]
    rows: RowsPlan


def plan_fold(
    name: str,
    query_type: QueryType,
    raw: msgspec.Raw,
    definition: StoreDefinition,
    codec: Codec,
    times: Times | None,
) -> FoldPlan:
    """Returns the plan. Raises MalformedRequestError for parameters that the query type refuses."""
    parameters = msgspec.json.decode(raw, type=dict[str, Any])
    del parameters["type"]

    def make() -> PartitionQuery:
        try:
            made = query_type(parameters, definition)
        except (LookupError, TypeError, ValueError) as error:
            what = f"{type(error).__name__}: {error}"
            raise MalformedRequestError(f"{name} takes no such members: {what}") from error
        if not isinstance(made, PartitionQuery):
            raise StoreError(f"{name} is no PartitionQuery: it needs source, add and result")
        return made

    source = _guarded(name, lambda: make().source)
    plan = plan_of(decode_query(_encoded(name, source)), codec, times)
    if not isinstance(plan, RowsPlan):
        raise StoreError(
            f"the `source` of query type {name} must be a query that returns rows; it is {source}"
        )
    return FoldPlan(name, make, plan)


def open_fold(reading: Reading, plan: FoldPlan, codec: Codec, metrics: Metrics) -> RowScan:
    """A scan for `fold` of the rows that the query type reads."""
    start = Piece(reading.partition, None, reading.view.sequence)
    return open_scan(reading, plan.rows, start, JsonRows(codec, plan.rows), metrics)


async def fold(
    scan: RowScan, plan: FoldPlan, clock: Clock, deadline: float, result_bytes_max: int
) -> tuple[msgspec.Raw, str]:
    """The partition's result as JSON, and a text with the number of rows.

    Closes the scan. Raises DeadlineExceededError, TooLargeError, and StoreError for errors of the
    query type.
    """
    try:
        query = _guarded(plan.name, plan.make)
        wants_more = True
        while wants_more and not scan.is_over:
            if clock.monotonic_s() >= deadline:
                raise deadline_exceeded()
            rows = _ROWS.decode(b"[%b]" % scan.take(CHUNK_ROWS_MAX).data)
            if rows:
                wants_more = bool(_guarded(plan.name, partial(query.add, rows)))
            await asyncio.sleep(0)  # Other requests take their turn.
        result = _encoded(plan.name, _guarded(plan.name, query.result))
        if len(bytes(result)) > result_bytes_max:
            raise TooLargeError(
                f"the result of {plan.name} has {len(bytes(result))} bytes, at most "
                f"{result_bytes_max} are answered: ask for less",
                limit=result_bytes_max,
            )
        return result, scan.told
    finally:
        scan.close()


def _guarded(name: str, act: Callable[[], _Result]) -> _Result:
    try:
        return act()
    except StoreError:
        raise
    except Exception as error:  # noqa: BLE001 other people's code: whatever it raises is told.
        _LOG.exception("the query type %s failed", name)
        raise StoreError(f"the query type {name} failed: {type(error).__name__}: {error}") from None


def _encoded(name: str, result: Mapping[str, Any] | Any) -> msgspec.Raw:
    try:
        return msgspec.Raw(msgspec.json.encode(result))
    except (TypeError, ValueError, RecursionError) as error:
        kind = type(result).__name__
        raise StoreError(
            f"query type {name} returned a {kind}, which cannot be encoded as JSON: {error}"
        ) from error
