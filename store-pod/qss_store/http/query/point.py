"""Answers `GET /state/stores/{store}/{key}`. Its code has to be fast.

A request for a key of another pod is passed on once, and the answer is passed back unchanged.
"""

from functools import partial
from typing import NamedTuple
from zlib import crc32

from aiohttp import hdrs, web
from multidict import CIMultiDict

from qss_core.errors import KeyNotFoundError, StoreError
from qss_core.formats.values import splitter_of
from qss_core.model import Ordinal, PartitionId
from qss_core.queries.parameters import (
    POINT_PARAMETERS,
    ReadOptions,
    Scope,
    options_of,
    parse_parameters,
)
from qss_core.wire.messages import encode
from qss_store.http.content_types import JSON, OCTETS, negotiate
from qss_store.http.large_answers import LARGE_BYTES
from qss_store.http.middleware import MEMORY, problem_response, takes_memory_up_to
from qss_store.http.path_keys import key_text
from qss_store.http.responses import encoded_query, forwarded_headers, seconds_text
from qss_store.reads.codec import Codec, RowWriter
from qss_store.reads.context import ReadContext
from qss_store.reads.plans.keys import OnePlan, PointPlan, key_of_text, partition_of_key
from qss_store.reads.request import ReadRequest
from qss_store.reads.routing.admission import Reading, read_prepared
from qss_store.reads.routing.peer_reads import HttpAnswer, PeerRequest
from qss_store.reads.routing.trace import ExecutionTrace
from qss_store.reads.scans import replica_reads as local
from qss_store.runtime.peer_client import refusal_of
from qss_store.runtime.request_memory import NoMemoryError

_ETAG_NAMES = {JSON: "json", OCTETS: "bytes"}
_COPIES = 2  # The row as stored, and as JSON.
_PASSED_ON = (hdrs.ACCEPT, hdrs.IF_NONE_MATCH)
_PASSED_BACK = (
    hdrs.CONTENT_TYPE,
    hdrs.ETAG,
    hdrs.VARY,
    "Queryable-State-Position",
    "Queryable-State-Partition",
    "Queryable-State-Served-By",
    "Queryable-State-Sequence",
)


class PointAsk(NamedTuple):
    """A parsed request for one row, with the row's encoder."""

    request: web.Request
    read: ReadRequest[OnePlan]
    partition: PartitionId
    parameters: dict[str, str]
    media: str
    write: RowWriter


class PointApi:
    def __init__(self, reader: ReadContext) -> None:
        self._reader = reader
        self._last_headers: dict[tuple[PartitionId, str], tuple[str, CIMultiDict[str]]] = {}

    async def get(self, request: web.Request) -> web.Response:
        return await self.answer(self._parse(request))

    async def answer(self, ask: PointAsk) -> web.Response:
        """The row from this pod or from another one."""
        reader = self._reader
        failed: dict[PartitionId, StoreError] = {}
        options, partition = ask.read.options, ask.partition
        if partition in reader.pod.registry.replicas or options.scope is Scope.LOCAL:
            try:
                return await self._answer_here(ask)
            except NoMemoryError:
                raise  # The request has no memory, not the row.
            except StoreError as error:
                failed[partition] = error.with_traceback(None)
        ask_pod, deadline = partial(self._ask, ask), reader.deadline(options)
        found = await reader.scatter((partition,), options, ask_pod, deadline, failed)
        answer = found[partition]
        if isinstance(answer, StoreError):
            raise answer
        return answer

    def _parse(self, request: web.Request) -> PointAsk:
        reader = self._reader
        codec = reader.key_value_codec(request.match_info["store"])
        parameters = parse_parameters(request.rel_url.raw_query_string, POINT_PARAMETERS)
        options = options_of(parameters)
        media = negotiate(request, media_of_values(codec))
        read, partition = plan_point(codec, key_text(request), options)
        return PointAsk(request, read, partition, parameters, media, reader.writer)

    # --- Here

    async def _answer_here(self, ask: PointAsk) -> web.Response:
        pod, key = self._reader.pod, ask.read.plan.key
        large_bytes = self._reader.large_rows.size_of(ask.partition, key)
        if large_bytes:
            takes_memory_up_to(ask.request, _COPIES * large_bytes)
            await pod.turns.wait()

        def produce(reading: Reading) -> web.Response:
            if not large_bytes:
                return self._answer(ask, reading)
            pod.turns.begin()
            try:
                return self._answer(ask, reading)
            finally:
                pod.turns.end()

        _, answer = await read_prepared(pod, ask.partition, ask.read, produce)
        return answer

    def _answer(self, ask: PointAsk, reading: Reading) -> web.Response:
        clock = self._reader.pod.clock
        execution = ExecutionTrace(clock, wanted=ask.read.options.execution_info)
        started = clock.monotonic_s()
        body = self._body(ask, reading)
        execution.read(clock.monotonic_s() - started, 1, int(body is not None))
        self._reader.large_rows.note(ask.partition, ask.read.plan.key, len(body or b""))
        headers = self._headers(ask, reading)
        if body is None:
            response = problem_response(_not_found(ask))
            del headers[hdrs.ETAG], headers[hdrs.CONTENT_TYPE]
            response.headers.update(headers)
            return response
        none_match = ask.request.headers.get(hdrs.IF_NONE_MATCH)
        if none_match is not None and _matches(none_match, headers[hdrs.ETAG]):
            del headers[hdrs.CONTENT_TYPE]
            return web.Response(status=304, headers=headers)
        if ask.media == JSON and (lines := execution.lines()) is not None:
            body = _with_execution(body, lines)
        return web.Response(body=body, headers=headers)

    def _headers(self, ask: PointAsk, reading: Reading) -> CIMultiDict[str]:
        """A copy of the state's headers, which are cached for each state."""
        place = (ask.partition, ask.media)
        last = self._last_headers.get(place)
        if last is None or last[0] is not reading.view.token:  # Each view has its own token.
            headers = CIMultiDict(state_headers(ask.read.codec, ask.media, reading))
            last = self._last_headers[place] = (reading.view.token, headers)
        return last[1].copy()

    def _body(self, ask: PointAsk, reading: Reading) -> bytes | None:
        plan, codec = ask.read.plan, ask.read.codec
        if ask.media == JSON:
            return local.read_point(reading, plan, self._counting(ask))
        return local.read_bytes(reading, plan, splitter_of(codec.format))

    def _counting(self, ask: PointAsk) -> RowWriter:
        """Wraps the row writer: a large row takes memory before it is written."""

        def counted(key: bytes, row: bytes) -> bytes:
            if len(row) > LARGE_BYTES:
                self._reader.large_rows.note(ask.partition, ask.read.plan.key, len(row))
                takes_memory_up_to(ask.request, _COPIES * len(row))
            return ask.write(key, row)

        return counted

    # --- On another pod

    async def _ask(
        self, ask: PointAsk, pod: Ordinal, partitions: list[PartitionId], timeout_s: float
    ) -> dict[PartitionId, web.Response | StoreError]:
        reader = self._reader
        if pod == reader.pod.ordinal:
            return {ask.partition: await self._answer_here(ask)}
        address, memory = reader.pod.registry.address(pod), ask.request.get(MEMORY)
        request = _peer_request(ask, timeout_s)
        answer = await reader.peers.ask(address, request, timeout_s, memory)
        return dict.fromkeys(partitions, _passed_back(answer))


def plan_point(
    codec: Codec, key: str, options: ReadOptions
) -> tuple[ReadRequest[PointPlan], PartitionId]:
    """The read of a key given as in a path, and the key's partition."""
    plan = PointPlan(key_of_text(key, codec), codec.shape)
    partition = partition_of_key(plan.key, options.partition, codec)
    return ReadRequest(codec, plan, options), partition


def media_of_values(codec: Codec) -> tuple[str, ...]:
    """The content types of one row: values of the serde bytes are also served raw."""
    return (JSON, OCTETS) if codec.value.name == "bytes" else (JSON,)


def state_headers(codec: Codec, media: str, reading: Reading) -> dict[str, str]:
    """The headers that identify the state of a point answer."""
    view = reading.view
    # The tag has the format, since another format shows the same state differently, and the
    # position, since offsets are given again after a loss of data that was accepted.
    position = crc32(view.token.encode())
    etag = f"{view.applied}-{position:08x}-{view.format}-{_ETAG_NAMES[media]}"
    if view.staged:
        etag += f"-{view.staged}"
    return {
        hdrs.CONTENT_TYPE: media,
        hdrs.ETAG: f'W/"{codec.store_id}-{reading.partition}-{etag}"',
        hdrs.VARY: "Accept",
        "Queryable-State-Position": view.token,
        "Queryable-State-Partition": str(reading.partition),
        "Queryable-State-Served-By": reading.pod,
        "Queryable-State-Sequence": str(view.sequence),
    }


def _not_found(ask: PointAsk) -> KeyNotFoundError:
    return KeyNotFoundError(
        f"partition {ask.partition} of store {ask.read.codec.name} has no such key",
        partition=ask.partition,
    )


def _matches(none_match: str, etag: str) -> bool:
    """Whether `If-None-Match` names the state, by RFC 9110's weak comparison."""
    if none_match.strip() == "*":
        return True
    return etag.removeprefix("W/") in (
        tag.strip().removeprefix("W/") for tag in none_match.split(",")
    )


def _with_execution(body: bytes, lines: tuple[str, ...]) -> bytes:
    return b'%b,"executionInfo":%b}' % (body[:-1], encode(list(lines)))


def _peer_request(ask: PointAsk, timeout_s: float) -> PeerRequest:
    parameters = {**ask.parameters, "scope": Scope.LOCAL.value, "timeout": seconds_text(timeout_s)}
    return PeerRequest(
        method=hdrs.METH_GET,  # Also for a HEAD: it has the length and the problem of the GET.
        path=f"{ask.request.rel_url.raw_path}?{encoded_query(parameters)}",
        headers=forwarded_headers(ask.request, _PASSED_ON),
    )


def _passed_back(answer: HttpAnswer) -> web.Response | StoreError:
    if answer.status not in (200, 304):
        error = refusal_of(answer.status, answer.body)
        if not isinstance(error, KeyNotFoundError):
            return error.with_traceback(None)
    headers = {name: answer.headers[name] for name in _PASSED_BACK if name in answer.headers}
    return web.Response(status=answer.status, body=answer.body, headers=headers)
