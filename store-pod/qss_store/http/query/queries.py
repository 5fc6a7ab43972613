"""Answers IQv2 queries, counts and batch gets."""

from contextlib import nullcontext
from dataclasses import replace
from typing import TypeVar

import msgspec
from aiohttp import hdrs, web

from qss_core.errors import MalformedRequestError
from qss_core.model import PartitionId
from qss_core.queries.parameters import (
    BODY_PARAMETERS,
    COUNT_PARAMETERS,
    ReadOptions,
    Scope,
    is_exact,
    options_of,
    options_of_body,
    parse_parameters,
    scope_of,
)
from qss_core.queries.requests import BatchRequest, PartitionAnswer, QueryAnswer, QueryRequest
from qss_core.queries.types import (
    QUERY_TYPES,
    CountQuery,
    MultiVersionedKeyQuery,
    Query,
    SessionQuery,
    WindowQuery,
    decode_query,
    query_type,
)
from qss_core.wire.bodies import decode_request
from qss_core.wire.messages import encode
from qss_store.http.content_types import ARROW, JSON, negotiate
from qss_store.http.middleware import MEMORY, BodyPace, read_body, takes_objects
from qss_store.http.query.arrow import encode_found
from qss_store.http.query.scans import ScanApi, peer_headers
from qss_store.http.query.streams import Collected, send_document
from qss_store.http.responses import forwarded_headers, json_response
from qss_store.reads.codec import Codec
from qss_store.reads.context import ReadContext
from qss_store.reads.gather import Answers, Gather, GatherPlan, merged_position
from qss_store.reads.get_many import BatchGet
from qss_store.reads.multi_scan import MakePeerRequest, PeerPart
from qss_store.reads.plans.dispatch import RowsPlan, check_countable, plan_of
from qss_store.reads.plans.keys import CountPlan, OnePlan, partition_of_key
from qss_store.reads.plans.times import TimedPlan
from qss_store.reads.request import ReadRequest
from qss_store.reads.routing.peer_reads import PeerRequest
from qss_store.reads.user_queries import FoldPlan, plan_fold
from qss_store.runtime.plugins import Extensions

_Message = TypeVar("_Message")
_COUNT_MAX = 2**63 - 1  # Kafka's approximateNumEntries has the same maximum.


class QueryApi:
    """The handlers of `POST /state/query`, `POST /state/get` and `GET /state/count`."""

    def __init__(self, reader: ReadContext, scans: ScanApi, extensions: Extensions) -> None:
        """`scans` makes scans and limits their number."""
        self._reader = reader
        self._scans = scans
        self._extensions = extensions

    async def query(self, request: web.Request) -> web.StreamResponse:
        codec = self._reader.codec(request.match_info["store"])
        scope = _scope(request)
        message = await self._read(request, QueryRequest)
        options = options_of_body(message, scope)
        name = query_type(message.query)
        if name not in QUERY_TYPES:
            return await self._fold(request, codec, name, message, options)
        query = decode_query(message.query)
        plan = plan_of(query, codec, message.times)
        if isinstance(plan, RowsPlan):
            options = _with_key_partition(query, plan, options, codec)
            rows = ReadRequest(codec, plan, options, message.limit, message.cursor)
            peer_requests = _peer_requests(request, message)
            return await self._scans.answer(request, rows, peer_requests, self._send_rows)
        _check_is_no_page(message, name)
        negotiate(request, (JSON,))
        read, targets = ReadRequest(codec, plan, options), self._targets(plan, options, codec)
        answers = await self._gather(request, read, message, targets)
        return await self._send(request, _query_answer(answers))

    async def _gather(
        self,
        request: web.Request,
        read: ReadRequest[GatherPlan],
        message: QueryRequest,
        partitions: tuple[PartitionId, ...],
    ) -> Answers:
        """Each partition's answer; an exact count and a fold take a scan's slot."""
        is_scan = read.plan == CountPlan(exact=True) or isinstance(read.plan, FoldPlan)
        gathering = Gather(self._reader, read, message, forwarded_headers(request))
        with self._scans.slot(read.options) if is_scan else nullcontext():
            return await gathering.answers(partitions, request.get(MEMORY))

    async def _fold(
        self,
        request: web.Request,
        codec: Codec,
        name: str,
        message: QueryRequest,
        options: ReadOptions,
    ) -> web.StreamResponse:
        """Answers a query of a user's own type."""
        reader = self._reader
        definition = reader.pod.registry.placed().definition
        kind = self._extensions.query(name)
        plan = plan_fold(name, kind, message.query, definition, codec, message.times)
        _check_is_no_page(message, name)
        if options.partition is not None:
            raise _partition_without_key()
        negotiate(request, (JSON,))
        read, partitions = ReadRequest(codec, plan, options), reader.partitions(options, codec)
        answers = await self._gather(request, read, message, partitions)
        return await self._send(request, _query_answer(answers))

    def _targets(
        self, plan: OnePlan | CountPlan, options: ReadOptions, codec: Codec
    ) -> tuple[PartitionId, ...]:
        """The named partitions; without any, a key's own partition."""
        _check_one_of_both(options)
        if isinstance(plan, OnePlan) and options.partitions is None:
            return (partition_of_key(plan.key, options.partition, codec),)
        if options.partition is not None:
            raise _partition_without_key()
        return self._reader.partitions(options, codec)

    async def _send_rows(self, request: web.Request, found: Collected) -> web.StreamResponse:
        answers = {
            partition: answer
            if answer.failure is not None
            else msgspec.structs.replace(answer, result=found.result_of(partition))
            for partition, answer in found.answers.items()
        }
        whole = msgspec.structs.replace(_query_answer(answers), cursor=found.cursor)
        return await self._send(request, whole)

    async def count(self, request: web.Request) -> web.Response:
        """The number of keys, estimated or exact."""
        codec = self._reader.codec(request.match_info["store"])
        check_countable(codec)
        parameters = parse_parameters(request.rel_url.raw_query_string, COUNT_PARAMETERS)
        options = options_of(parameters)
        negotiate(request, (JSON,))
        plan = CountPlan(is_exact(parameters))
        query = msgspec.Raw(msgspec.json.encode(CountQuery(exact=plan.exact)))
        read, partitions = (
            ReadRequest(codec, plan, options),
            self._reader.partitions(options, codec),
        )
        answers = await self._gather(request, read, QueryRequest(query=query), partitions)
        return json_response(
            {"count": _sum(answers), "exact": plan.exact, "partitions": _by_text(answers)}
        )

    async def get_many(self, request: web.Request) -> web.StreamResponse:
        codec = self._reader.key_value_codec(request.match_info["store"])
        scope = _scope(request)
        message = await self._read(request, BatchRequest)
        media = negotiate(request, (JSON, ARROW))
        batch = BatchGet(self._reader, codec, message, scope, forwarded_headers(request))
        answer = await batch.answer(request.get(MEMORY))
        if media == ARROW:
            return await self._send_bytes(request, encode_found(codec, answer), ARROW)
        return await self._send_bytes(request, answer)

    async def _send(self, request: web.Request, message: object) -> web.StreamResponse:
        return await self._send_bytes(request, encode(message))

    async def _send_bytes(
        self, request: web.Request, body: bytes, media: str = JSON
    ) -> web.StreamResponse:
        return await send_document(request, (body,), self._reader.settings.write_stall_max_s, media)

    async def _read(self, request: web.Request, kind: type[_Message]) -> _Message:
        settings = self._reader.settings
        pace = BodyPace(total_s=settings.query_body_deadline_s)
        body = await read_body(request, settings.query_body_bytes_max, pace)
        takes_objects(request, body)
        return decode_request(body, kind)


def _with_key_partition(
    query: Query, plan: RowsPlan, options: ReadOptions, codec: Codec
) -> ReadOptions:
    """The named partitions; without any, the partition of a query for one key."""
    _check_one_of_both(options)
    of_keys = WindowQuery | SessionQuery | MultiVersionedKeyQuery
    is_of_key = isinstance(query, of_keys) and query.key is not None
    if not is_of_key and options.partition is not None:
        raise _partition_without_key()
    if not is_of_key or options.partitions is not None:
        return options
    assert isinstance(plan, TimedPlan), "its query is of rows with times"
    assert plan.key_from is not None, "it has a key"
    partition = partition_of_key(plan.key_from, options.partition, codec)
    return replace(options, partition=None, partitions=(partition,))


def _check_is_no_page(message: QueryRequest, name: str) -> None:
    if message.limit is not None or message.cursor is not None:
        raise MalformedRequestError(f"{name} answers no pages: leave out limit and cursor")


def _check_one_of_both(options: ReadOptions) -> None:
    if options.partition is not None and options.partitions is not None:
        raise MalformedRequestError("give partition or partitions, not both")


def _partition_without_key() -> MalformedRequestError:
    return MalformedRequestError("partition is for a query of one key: give partitions")


def _scope(request: web.Request) -> Scope:
    return scope_of(parse_parameters(request.rel_url.raw_query_string, BODY_PARAMETERS))


def _peer_requests(request: web.Request, message: QueryRequest) -> MakePeerRequest:
    def make(part: PeerPart) -> PeerRequest:
        asked = msgspec.structs.replace(
            message,
            partitions=(part.partition,),
            partition=None,
            cursor=part.cursor,
            limit=part.limit,
            timeout=part.timeout_s,
        )
        return PeerRequest(
            method="POST",
            path=f"{request.rel_url.raw_path}?scope={Scope.LOCAL}",
            headers={**peer_headers(request, part), hdrs.CONTENT_TYPE: JSON},
            body=msgspec.json.encode(asked),
        )

    return make


def _query_answer(answers: Answers) -> QueryAnswer:
    return QueryAnswer(
        partition_results=_by_text(answers), position=merged_position(answers).to_json()
    )


def _by_text(answers: Answers) -> dict[str, PartitionAnswer]:
    return {str(partition): answer for partition, answer in answers.items()}


def _sum(answers: Answers) -> int | None:
    """The sum over all partitions; None if a partition failed, since a partial count is wrong."""
    if any(answer.failure is not None for answer in answers.values()):
        return None
    counts = (answer.result for answer in answers.values())
    total = sum(int(bytes(count)) for count in counts if isinstance(count, msgspec.Raw))
    return min(total, _COUNT_MAX)
