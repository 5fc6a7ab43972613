"""One result from each of many partitions: IQv2's points and counts."""

from dataclasses import replace

import msgspec

from qss_core.errors import MalformedBytesError, StoreError
from qss_core.model import Isolation, Ordinal, PartitionId
from qss_core.positions import Position, encode_token
from qss_core.queries.parameters import Scope
from qss_core.queries.requests import (
    PartitionAnswer,
    QueryAnswer,
    QueryRequest,
    error_of_failure,
    failure_of,
)
from qss_store.reads.codec import Codec, RowWriter, make_row_writer
from qss_store.reads.context import ReadContext
from qss_store.reads.encode.timed_rows import make_timed_writer
from qss_store.reads.exact_count import count_rows, open_count
from qss_store.reads.plans.keys import CountPlan, OnePlan, PointPlan
from qss_store.reads.request import ReadRequest
from qss_store.reads.routing.admission import Reading, read_prepared
from qss_store.reads.routing.peer_reads import PeerRequest
from qss_store.reads.routing.trace import ExecutionTrace
from qss_store.reads.scans import replica_reads as local
from qss_store.reads.scans.open_scan import RowScan
from qss_store.reads.user_queries import FoldPlan, fold, open_fold
from qss_store.runtime.request_memory import MemoryShare

_ABSENT = msgspec.Raw(b"null")
_SMALL_BYTES = 64 * 1024  # A connection may buffer as much anyway.
_COPIES = 2
Answers = dict[PartitionId, PartitionAnswer]
GatherPlan = OnePlan | CountPlan | FoldPlan


class Gather:
    def __init__(
        self,
        reader: ReadContext,
        request: ReadRequest[GatherPlan],
        message: QueryRequest,
        headers: dict[str, str],
    ) -> None:
        """`message` has the query and the `times` for peers; `headers` are forwarded."""
        self._reader = reader
        self._request = request
        self._message = message
        self._headers = headers
        self._memory: MemoryShare | None = None

    async def answers(
        self, partitions: tuple[PartitionId, ...], memory: MemoryShare | None = None
    ) -> Answers:
        """Each partition's result or failure, in order.

        Raises NoMemoryError if other requests hold the memory that the results need.
        """
        self._memory = memory
        options = self._request.options
        deadline = self._reader.deadline(options)
        found = await self._reader.scatter(partitions, options, self._ask, deadline)
        return {partition: _as_answer(found[partition]) for partition in partitions}

    async def _ask(
        self, pod: Ordinal, partitions: list[PartitionId], timeout_s: float
    ) -> dict[PartitionId, PartitionAnswer | StoreError]:
        clock = self._reader.pod.clock
        started = clock.monotonic_s()
        if pod == self._reader.pod.ordinal:
            until = started + timeout_s
            return {partition: await self._ask_here(partition, until) for partition in partitions}
        address = self._reader.pod.registry.address(pod)
        request = self._peer_request(partitions, timeout_s)
        body = await self._reader.peers.read(address, request, timeout_s, self._memory)
        try:
            results = msgspec.json.decode(body, type=QueryAnswer).partition_results
            asked = {partition: results[str(partition)] for partition in partitions}
        except (msgspec.DecodeError, UnicodeDecodeError, KeyError) as error:
            raise MalformedBytesError(
                f"pod {address.name} sent an answer that cannot be read"
            ) from error
        execution = ExecutionTrace(clock, wanted=self._request.options.execution_info)
        execution.add(f"peer {address.name}", clock.monotonic_s() - started)
        return {partition: _from_peer(asked[partition], execution) for partition in partitions}

    async def _ask_here(self, partition: PartitionId, until: float) -> PartitionAnswer | StoreError:
        execution = ExecutionTrace(
            self._reader.pod.clock, wanted=self._request.options.execution_info
        )
        try:
            reading, result = await self._read(partition, execution, until)
            self._keep(result)
        except StoreError as error:
            return error.with_traceback(None)
        return msgspec.structs.replace(
            reading.answer(), result=result, execution_info=execution.lines()
        )

    async def _read(
        self, partition: PartitionId, execution: ExecutionTrace, until: float
    ) -> tuple[Reading, msgspec.Raw]:
        """The result of a local replica; a scan of its rows takes turns with other requests."""
        plan, codec, pod = self._request.plan, self._request.codec, self._reader.pod
        started = pod.clock.monotonic_s()
        if not isinstance(plan, FoldPlan) and plan != CountPlan(exact=True):
            return await self._look_up(partition, plan, execution)

        def open_rows(reading: Reading) -> RowScan:
            if isinstance(plan, FoldPlan):
                return open_fold(reading, plan, codec, pod.metrics)
            return open_count(reading, codec, pod.metrics)

        reading, scan = await read_prepared(pod, partition, self._request, open_rows)
        if isinstance(plan, FoldPlan):
            bytes_max = self._reader.settings.answer_bytes_max
            name, (result, told) = plan.name, await fold(scan, plan, pod.clock, until, bytes_max)
        else:
            counted, told = await count_rows(scan, pod.clock, until)
            name, result = "count", msgspec.Raw(b"%d" % counted)
        execution.add(name, pod.clock.monotonic_s() - started, f", {told}")
        return reading, result

    async def _look_up(
        self, partition: PartitionId, plan: OnePlan | CountPlan, execution: ExecutionTrace
    ) -> tuple[Reading, msgspec.Raw]:
        """Reads one row, or the engine's estimate, which counts committed rows only."""
        clock, request = self._reader.pod.clock, self._request
        if isinstance(plan, CountPlan):
            options = replace(request.options, isolation=Isolation.READ_COMMITTED)
            request = msgspec.structs.replace(request, options=options)
        opening = clock.monotonic_s()

        def produce(reading: Reading) -> msgspec.Raw:
            started = clock.monotonic_s()
            execution.add("open", started - opening)
            if isinstance(plan, CountPlan):
                counted = local.estimate_count(reading)
                execution.add("count", clock.monotonic_s() - started)
                return msgspec.Raw(b"%d" % counted)
            row = local.read_point(reading, plan, _writer_of(plan, request.codec))
            execution.read(clock.monotonic_s() - started, 1, int(row is not None))
            return _ABSENT if row is None else msgspec.Raw(row)

        return await read_prepared(self._reader.pod, partition, request, produce)

    def _keep(self, result: msgspec.Raw) -> None:
        """Takes memory for the copy of a result in the answer."""
        size = len(bytes(result))
        if self._memory is not None and size > _SMALL_BYTES:
            self._memory.take(_COPIES * size)

    def _peer_request(self, partitions: list[PartitionId], timeout_s: float) -> PeerRequest:
        options = self._request.options
        message = QueryRequest(
            query=self._message.query,
            times=self._message.times,
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
            path=f"/state/query/{self._request.codec.name}?scope={Scope.LOCAL}",
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
    """The largest offset of each component over all answers."""
    position = Position.empty()
    for answer in answers.values():
        if answer.position is not None:
            position = position.merge(Position.from_json(answer.position))
    return position
