"""One result from each of many partitions at once: points and counts of IQv2."""

from dataclasses import replace

import msgspec

from qss_core.errors import MalformedBytesError, StoreError
from qss_core.model import Isolation, Ordinal, PartitionId
from qss_core.positions import Position, encode_token
from qss_core.queries.parameters import ReadOptions, Scope
from qss_core.queries.requests import (
    PartitionAnswer,
    QueryAnswer,
    QueryRequest,
    error_of_failure,
    failure_of,
)
from qss_core.times import Times
from qss_store.reads.codec import Codec, RowWriter, make_row_writer
from qss_store.reads.context import ReadContext
from qss_store.reads.encode.timed_rows import make_timed_writer
from qss_store.reads.exact_count import count_rows
from qss_store.reads.plans.keys import CountPlan, OnePlan, PointPlan
from qss_store.reads.routing.admission import Reading, prepare_reading
from qss_store.reads.routing.peer_reads import PeerRequest
from qss_store.reads.routing.replica_router import ReplicaRouter
from qss_store.reads.routing.scatter import scatter
from qss_store.reads.routing.trace import ExecutionTrace
from qss_store.reads.scans import open_scan as local
from qss_store.reads.user_queries import FoldPlan, fold
from qss_store.runtime.request_memory import MemoryShare

_ABSENT = msgspec.Raw(b"null")
_SMALL_BYTES = 64 * 1024  # As a connection may have anyway.
_COPIES = 2
Answers = dict[PartitionId, PartitionAnswer]


class Gather:
    """One query over many partitions."""

    def __init__(
        self,
        reader: ReadContext,
        codec: Codec,
        plan: OnePlan | CountPlan | FoldPlan,
        query: msgspec.Raw,
        options: ReadOptions,
        headers: dict[str, str],
        times: Times | None = None,
    ) -> None:
        """`query` is what peers are asked, with `times`; `headers` go along."""
        self._reader = reader
        self._codec = codec
        self._plan = plan
        self._query = query
        self._options = options
        self._headers = headers
        self._times = times
        self._memory: MemoryShare | None = None

    async def answers(
        self, partitions: tuple[PartitionId, ...], memory: MemoryShare | None = None
    ) -> Answers:
        """Each partition's result or failure, in order.

        Raises NoMemoryError where others have the `memory` that the results would take.
        """
        self._memory = memory
        turns: dict[PartitionId, ReplicaRouter] = {}
        found: dict[PartitionId, PartitionAnswer | StoreError] = {}
        for partition in partitions:
            try:
                turns[partition] = self._reader.turn(partition, self._options)
            except StoreError as error:
                found[partition] = error.with_traceback(None)
        pod = self._reader.pod
        deadline = self._reader.deadline(self._options)
        found |= await scatter(turns, self._ask, pod.placed().pods, deadline, pod.clock)
        return {partition: _as_answer(found[partition]) for partition in partitions}

    async def _ask(
        self, pod: Ordinal, partitions: list[PartitionId], timeout_s: float
    ) -> dict[PartitionId, PartitionAnswer | StoreError]:
        if pod == self._reader.pod.ordinal:
            until = self._reader.pod.clock.monotonic() + timeout_s
            if isinstance(self._plan, FoldPlan):
                return {one: await self._fold_here(one, self._plan, until) for one in partitions}
            if self._plan == CountPlan(exact=True):
                return {one: await self._count_here(one, until) for one in partitions}
            return {partition: await self._ask_here(partition) for partition in partitions}
        started = self._reader.pod.clock.monotonic()
        address = self._reader.pod.address(pod)
        request = self._peer_request(partitions, timeout_s)
        body = await self._reader.peers.read(address, request, timeout_s, self._memory)
        try:
            results = msgspec.json.decode(body, type=QueryAnswer).partition_results
            asked = {partition: results[str(partition)] for partition in partitions}
        except (msgspec.DecodeError, UnicodeDecodeError, KeyError) as error:
            raise MalformedBytesError(f"pod {address.name} answered something else") from error
        execution = ExecutionTrace(self._reader.pod.clock, wanted=self._options.execution_info)
        execution.add(f"peer {address.name}", self._reader.pod.clock.monotonic() - started)
        return {partition: _from_peer(asked[partition], execution) for partition in partitions}

    async def _open(self, partition: PartitionId) -> Reading:
        options = self._options
        if self._plan == CountPlan():
            # The engine estimates what is committed.
            options = replace(options, isolation=Isolation.READ_COMMITTED)
        return await prepare_reading(self._reader.pod, partition, options, self._codec.format)

    async def _ask_here(self, partition: PartitionId) -> PartitionAnswer | StoreError:
        execution = ExecutionTrace(self._reader.pod.clock, wanted=self._options.execution_info)
        try:
            with execution.layer("open"):
                reading = await self._open(partition)
            assert not isinstance(self._plan, FoldPlan), "it takes turns"
            if isinstance(self._plan, CountPlan):
                with execution.layer("count"):
                    result = msgspec.Raw(b"%d" % local.estimate_count(reading))
            else:
                clock = self._reader.pod.clock
                started = clock.monotonic()
                row = local.read_point(reading, self._plan, _writer_of(self._plan, self._codec))
                execution.read(clock.monotonic() - started, 1, int(row is not None))
                result = _ABSENT if row is None else self._kept(msgspec.Raw(row))
        except StoreError as error:
            return error.with_traceback(None)
        return msgspec.structs.replace(
            reading.answer(), result=result, execution_info=execution.lines()
        )

    def _kept(self, result: msgspec.Raw) -> msgspec.Raw:
        """A result, and room for its copy in the answer."""
        size = len(bytes(result))
        if self._memory is not None and size > _SMALL_BYTES:
            self._memory.take(_COPIES * size)
        return result

    async def _count_here(
        self, partition: PartitionId, until: float
    ) -> PartitionAnswer | StoreError:
        pod = self._reader.pod
        execution = ExecutionTrace(pod.clock, wanted=self._options.execution_info)
        started = pod.clock.monotonic()
        try:
            reading = await self._open(partition)
            counted, told = await count_rows(reading, self._codec, pod.metrics, pod.clock, until)
        except StoreError as error:
            return error.with_traceback(None)
        execution.add("count", pod.clock.monotonic() - started, f", {told}")
        return msgspec.structs.replace(
            reading.answer(),
            result=msgspec.Raw(b"%d" % counted),
            execution_info=execution.lines(),
        )

    async def _fold_here(
        self, partition: PartitionId, plan: FoldPlan, until: float
    ) -> PartitionAnswer | StoreError:
        reader = self._reader
        clock = reader.pod.clock
        execution = ExecutionTrace(clock, wanted=self._options.execution_info)
        started = clock.monotonic()
        try:
            reading = await self._open(partition)
            result, told = await fold(
                reading,
                plan,
                self._codec,
                reader.pod.metrics,
                clock,
                until,
                reader.settings.answer_bytes_max,
            )
            self._kept(result)
        except StoreError as error:
            return error.with_traceback(None)
        execution.add(plan.name, clock.monotonic() - started, f", {told}")
        return msgspec.structs.replace(
            reading.answer(), result=result, execution_info=execution.lines()
        )

    def _peer_request(self, partitions: list[PartitionId], timeout_s: float) -> PeerRequest:
        options = self._options
        message = QueryRequest(
            query=self._query,
            times=self._times,
            partitions=tuple(partitions),
            require_active=options.require_active,
            position_bound=encode_token(options.bound) if options.bound.topics else None,
            isolation=options.isolation,
            timeout=timeout_s,
            max_staleness=options.max_staleness_s,
            execution_info=options.execution_info,
        )
        return PeerRequest(
            method="POST",
            path=f"/state/query/{self._codec.name}?scope={Scope.LOCAL}",
            headers={**self._headers, "Content-Type": "application/json"},
            body=msgspec.json.encode(message),
        )


def _writer_of(plan: OnePlan, codec: Codec) -> RowWriter:
    if isinstance(plan, PointPlan):
        return make_row_writer(codec, plan.shape)
    return make_timed_writer(codec, codec.shape, plan.times)


def _from_peer(answer: PartitionAnswer, execution: ExecutionTrace) -> PartitionAnswer | StoreError:
    if answer.failure is not None:
        return error_of_failure(answer.failure)
    lines = execution.lines()
    if lines is None:
        return answer
    return msgspec.structs.replace(answer, execution_info=(*(answer.execution_info or ()), *lines))


def _as_answer(answer: PartitionAnswer | StoreError) -> PartitionAnswer:
    if isinstance(answer, StoreError):
        return PartitionAnswer(failure=failure_of(answer))
    return answer


def merged_position(answers: Answers) -> Position:
    """The largest offset of each component over all partitions that answered."""
    position = Position.empty()
    for answer in answers.values():
        if answer.position is not None:
            position = position.merge(Position.from_json(answer.position))
    return position
