"""Batch gets: many keys in one request, with a status for each; each partition reads one state."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from qss_core.errors import MalformedBytesError, OverloadedError, StoreError, unreadable
from qss_core.model import Ordinal, PartitionId
from qss_core.queries.parameters import Scope, options_of_body
from qss_core.queries.requests import (
    BatchRequest,
    KeyStatus,
    PartitionAnswer,
    error_of_failure,
    failure_of,
)
from qss_store.reads.codec import Codec, RowWriter, make_row_writer
from qss_store.reads.context import ReadContext, damage_of
from qss_store.reads.encode.batch_get import found_rows
from qss_store.reads.plans.keys import check_count, keys_of_json, partitions_of_keys
from qss_store.reads.request import ReadRequest
from qss_store.reads.routing.admission import Reading, read, read_prepared
from qss_store.reads.routing.peer_reads import PeerRequest
from qss_store.reads.routing.trace import ExecutionTrace
from qss_store.reads.rows_of_keys import RowsOfKeys, RowsOrFailures
from qss_store.reads.scans.replica_reads import CHUNK_BYTES_MAX, CHUNK_ROWS_MAX
from qss_store.runtime.request_memory import MemoryShare

_AT_ONCE_MAX = 100
_PlacedRow = tuple[int, bytes | StoreError | None]


class BatchAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to a BatchRequest: a result for each key in order, each partition's state."""

    results: list[msgspec.Raw]
    partitions: dict[str, PartitionAnswer]


@dataclass(frozen=True, slots=True)
class _Part:
    """One partition's state, and the objects to encode as the results of its keys."""

    answer: PartitionAnswer | msgspec.Raw
    results: list[Any]


class BatchGet:
    def __init__(
        self,
        reader: ReadContext,
        codec: Codec,
        message: BatchRequest,
        scope: Scope,
        headers: dict[str, str],
    ) -> None:
        """Checks the options and all keys of a message; `headers` are forwarded to peers."""
        options = options_of_body(message, scope)
        check_count(message.keys, reader.settings.keys_per_request_max)
        self._reader = reader
        self._codec = codec
        self._message = message
        self._options = options
        self._request = ReadRequest(codec, None, options)
        self._headers = headers
        self._keys = keys_of_json(message.keys, codec)
        self._places: dict[PartitionId, list[int]] = defaultdict(list)
        for place, partition in enumerate(partitions_of_keys(self._keys, options.partition, codec)):
            self._places[partition].append(place)
        self._rows = RowsOfKeys(reader.settings.answer_bytes_max)
        self._encoded = 0  # Keys since the last turn of other requests.

    async def answer(self, memory: MemoryShare | None = None) -> bytes:
        """The JSON of a BatchAnswer, with a result for each key.

        Raises OverloadedError if other requests hold the memory that the rows need.
        """
        self._rows.memory = memory
        pod = self._reader.pod
        found: dict[PartitionId, _Part | StoreError] = {}
        failed: dict[PartitionId, StoreError] = {}
        for partition in self._places:
            if partition in pod.registry.replicas:
                try:
                    found[partition] = await self._read(partition)
                except OverloadedError:
                    raise  # The request has no memory, not the partition.
                except StoreError as error:
                    failed[partition] = error.with_traceback(None)
            else:
                pod.registry.configuration(partition)  # Raises where there is no such partition.
        if elsewhere := self._places.keys() - found.keys():
            deadline = self._reader.deadline(self._options)
            found |= await self._reader.scatter(
                elsewhere, self._options, self._ask, deadline, failed
            )
        return self._assembled(found)

    def answer_at_once(self, bytes_max: int) -> bytes | None:
        """As `answer`, without a pause; None if it needs one, or a key is on another pod.

        None, too, if the rows have `bytes_max` bytes or more: this read is not counted in memory.
        """
        self._rows.bytes_left = min(self._rows.bytes_left, bytes_max)
        if self._options.execution_info or self._options.scope is not Scope.ALL:
            return None
        pod = self._reader.pod
        found: dict[PartitionId, _Part | StoreError] = {}
        for partition, places in self._places.items():
            keys = [self._keys[place] for place in places]
            reading, rows = read(pod, partition, self._request, partial(self._rows.read, keys))
            if self._rows.bytes_left <= 0:
                return None
            results = self._found_at_once(partition, keys, rows)
            if results is None and damage_of(rows) is None:
                results = self._few(partition, places, rows)
            if results is None:
                return None
            found[partition] = _Part(self._reader.answer_json(reading), results)
        return self._assembled(found)

    def _assembled(self, found: dict[PartitionId, _Part | StoreError]) -> bytes:
        results: list[Any] = [None] * len(self._keys)
        partitions: dict[str, PartitionAnswer | msgspec.Raw] = {}
        for partition in sorted(found):
            part = found[partition]
            if isinstance(part, StoreError):
                part = self._failed(partition, part)
            for place, result in zip(self._places[partition], part.results, strict=True):
                results[place] = result
            partitions[str(partition)] = part.answer
        return msgspec.json.encode({"results": results, "partitions": partitions})

    def _failed(self, partition: PartitionId, error: StoreError) -> _Part:
        results = [
            self._result(partition, place, KeyStatus.FAILED, error)
            for place in self._places[partition]
        ]
        return _Part(PartitionAnswer(failure=failure_of(error)), results)

    async def _ask(
        self, pod: Ordinal, partitions: list[PartitionId], timeout_s: float
    ) -> dict[PartitionId, _Part | StoreError]:
        if pod != self._reader.pod.ordinal:
            return await self._ask_peer(pod, partitions, timeout_s)
        parts: dict[PartitionId, _Part | StoreError] = {}
        for partition in partitions:
            try:
                parts[partition] = await self._read(partition)
            except StoreError as error:
                parts[partition] = error.with_traceback(None)
        return parts

    # --- Here

    async def _read(self, partition: PartitionId) -> _Part:
        pod, options = self._reader.pod, self._options
        execution = ExecutionTrace(pod.clock, wanted=options.execution_info)
        await pod.turns.wait()
        places = self._places[partition]
        keys = [self._keys[place] for place in places]
        started = 0.0

        def produce(reading: Reading) -> tuple[RowsOrFailures, list[Any] | None]:
            nonlocal started
            started = pod.turns.begin()
            rows = self._rows.read(keys, reading)
            results = self._found_at_once(partition, keys, rows)
            pod.turns.end()
            return rows, results

        replica = pod.registry.replicas.get(partition)
        reading, (rows, results) = await read_prepared(pod, partition, self._request, produce)
        if results is None:
            self._reader.check_damage(partition, rows, replica)
            results = await self._in_turns(partition, places, rows)
        if not options.execution_info:
            return _Part(self._reader.answer_json(reading), results)
        found = sum(row is not None for row in rows)
        execution.read(pod.clock.monotonic_s() - started, len(keys), found)
        answer = msgspec.structs.replace(reading.answer(), execution_info=execution.lines())
        return _Part(answer, results)

    def _found_at_once(
        self, partition: PartitionId, keys: list[bytes], rows: Sequence[bytes | StoreError | None]
    ) -> list[Any] | None:
        """The results in the usual case of few keys that all have rows; else None."""
        if len(keys) > _AT_ONCE_MAX or self._encoded > CHUNK_ROWS_MAX:
            return None
        try:
            # len() fails for a missing row and for a failure.
            if sum(map(len, rows)) > CHUNK_BYTES_MAX:  # type: ignore[arg-type]
                return None
        except TypeError:
            return None
        self._encoded += len(keys)
        return found_rows(self._codec, partition, keys, rows)  # type: ignore[arg-type]

    def _few(
        self, partition: PartitionId, places: list[int], rows: Sequence[bytes | StoreError | None]
    ) -> list[Any] | None:
        """As `_found_at_once`, also for absent and failed rows; None if they exceed one turn."""
        self._encoded += len(rows)
        size = sum(len(row) for row in rows if isinstance(row, bytes))
        if self._encoded > CHUNK_ROWS_MAX or size > CHUNK_BYTES_MAX:
            return None
        write = self._writer(partition)
        return [
            self._encode(partition, place, row, write)
            for place, row in zip(places, rows, strict=True)
        ]

    def _writer(self, partition: PartitionId) -> RowWriter:
        tail = b',"partition":%d,"status":"FOUND"}' % partition
        return make_row_writer(self._codec, self._codec.shape, tail)

    async def _in_turns(
        self, partition: PartitionId, places: list[int], rows: Sequence[bytes | StoreError | None]
    ) -> list[Any]:
        write = self._writer(partition)
        results: list[Any] = []
        for some in _slices(places, rows):
            results += [self._encode(partition, place, row, write) for place, row in some]
            self._encoded += len(some)
            if self._encoded >= CHUNK_ROWS_MAX or len(some) < len(rows):
                self._encoded = 0
                await asyncio.sleep(0)
        return results

    def _encode(
        self,
        partition: PartitionId,
        place: int,
        row: bytes | StoreError | None,
        write: RowWriter,
    ) -> msgspec.Raw:
        if row is None:
            return self._result(partition, place, KeyStatus.ABSENT)
        if isinstance(row, StoreError):
            return self._result(partition, place, KeyStatus.FAILED, row)
        try:
            return msgspec.Raw(write(self._keys[place], row))
        except MalformedBytesError as error:
            return self._result(partition, place, KeyStatus.FAILED, unreadable(error))

    def _result(
        self,
        partition: PartitionId,
        place: int,
        status: KeyStatus,
        error: StoreError | None = None,
    ) -> msgspec.Raw:
        members: dict[str, Any] = {
            "key": msgspec.Raw(self._codec.key.json_bytes(self._keys[place])),
            "partition": partition,
            "status": status,
        }
        if error is not None:
            members["failure"] = failure_of(error)
        return msgspec.Raw(msgspec.json.encode(members))

    # --- On another pod

    async def _ask_peer(
        self, pod: Ordinal, partitions: list[PartitionId], timeout_s: float
    ) -> dict[PartitionId, _Part | StoreError]:
        places = [place for partition in partitions for place in self._places[partition]]
        message = msgspec.structs.replace(
            self._message,
            keys=tuple(self._message.keys[place] for place in places),
            timeout=timeout_s,
        )
        request = PeerRequest(
            method="POST",
            path=f"/state/get/{self._codec.name}?scope={Scope.LOCAL}",
            headers={**self._headers, "Content-Type": "application/json"},
            body=msgspec.json.encode(message),
        )
        address = self._reader.pod.registry.address(pod)
        body = await self._reader.peers.read(address, request, timeout_s, self._rows.memory)
        try:
            answer = msgspec.json.decode(body, type=BatchAnswer)
            by_place = dict(zip(places, answer.results, strict=True))
            answers = {partition: answer.partitions[str(partition)] for partition in partitions}
        except (ValueError, KeyError) as error:
            raise MalformedBytesError(
                f"pod {address.name} sent an answer that cannot be read"
            ) from error
        return {
            partition: self._from_peer(partition, answers[partition], by_place)
            for partition in partitions
        }

    def _from_peer(
        self, partition: PartitionId, answer: PartitionAnswer, by_place: dict[int, msgspec.Raw]
    ) -> _Part | StoreError:
        if answer.failure is not None:
            return error_of_failure(answer.failure)
        return _Part(answer, [by_place[place] for place in self._places[partition]])


def _slices(
    places: list[int], rows: Sequence[bytes | StoreError | None]
) -> Iterator[list[_PlacedRow]]:
    """Rows with their places, each slice within the limits of one turn."""
    placed: list[_PlacedRow] = []
    size = 0
    for place, row in zip(places, rows, strict=True):
        placed.append((place, row))
        size += len(row) if isinstance(row, bytes) else 0
        if size >= CHUNK_BYTES_MAX or len(placed) >= CHUNK_ROWS_MAX:
            yield placed
            placed, size = [], 0
    if placed:
        yield placed
