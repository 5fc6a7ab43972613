"""The handlers of the internal port, for writers, peers and the operator (docs/batches.md).

A writer may send its requests to any pod: a pod that is not the coordinator passes them on, once.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from aiohttp import web
from msgspec.structs import replace

from qss_client.chunks.carried_batch import BATCH_MEDIA, CARRIED_BYTES_MAX, decode_batch
from qss_core.errors import (
    MalformedRequestError,
    OverloadedError,
    StaleWriterError,
)
from qss_core.model import StoreAssignment, WriterEpoch
from qss_core.queries.parameters import parse_parameters
from qss_core.wire.chunk_ids import decode_chunk_id
from qss_core.wire.conditions import TellConditionsRequest
from qss_core.wire.losses import AcceptLossRequest, ConfigurationsRequest, SequencesRequest
from qss_core.wire.messages import (
    GENERATION,
    INCARNATION,
    RESOURCE_UID,
    AbortPartitionsRequest,
    AbortRequest,
    CommitAnswer,
    CommitPartitionsRequest,
    CommitRequest,
    OpenWriterRequest,
    PrepareRequest,
    RenewAnswer,
    ResolveRequest,
    encode,
)
from qss_core.wire.replica_reports import ReplicasReport
from qss_core.wire.retirement import RetireRequest
from qss_core.wire.versions import OWN_VERSION, for_version, version_in
from qss_store.http.internal.coordinator_proxy import CoordinatorProxy
from qss_store.http.internal.kept_work import KeptWork
from qss_store.http.internal.writers import writer_name
from qss_store.http.middleware import (
    MEMORY,
    BodyPace,
    read_body,
    read_json,
)
from qss_store.http.responses import json_response
from qss_store.runtime.peer_client import PeerSession
from qss_store.transactions.commands import Stage
from qss_store.transactions.position_limits import (
    LESS_POSITION,
    check_position_json,
    commit_bytes_max,
)
from qss_store.writes.loss_acceptance import LossAcceptance
from qss_store.writes.pod_services import PodServices

Message = TypeVar("Message")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_WAIT_MAX_S = 60.0
STORE_ID = "storeId"


class InternalApi:
    def __init__(self, services: PodServices, session: PeerSession, kept: KeptWork) -> None:
        """`session` sends the requests that are passed on to the coordinator."""
        settings = services.settings
        self._kept = kept
        self._comparison = services.comparison
        self._losses = LossAcceptance(services.pod, services.comparison)
        self._pod = services.pod
        self._word = services.operator_word
        self._batches = services.participant
        self._coordination = services.coordinator
        self._to_coordinator = CoordinatorProxy(services.pod, session, settings)
        self._settings = settings
        self._pace = BodyPace(total_s=settings.body_deadline_s)
        self._uncommitted_bytes = 0

    def coordinated(self, handler: Handler, *parameters: str) -> Handler:
        """The handler on the coordinator; other pods pass the request on."""
        return self._to_coordinator.handler(handler, *parameters)

    # --- Writers

    async def open_writer(self, request: web.Request) -> web.Response:
        name = writer_name(request)
        self._check_store_id(request)
        message = await self._read(request, OpenWriterRequest, STORE_ID)
        return json_response(await self._coordination.open(name, message))

    async def commit(self, request: web.Request) -> web.Response:
        """Decides and commits a batch."""
        return json_response(await (await self._begin_commit(request)))

    async def _begin_commit(self, request: web.Request) -> Awaitable[CommitAnswer]:
        """Decodes the batch and starts the commit: waiting for it does not keep the body."""
        name, epoch, batch = _batch_of(request)
        self._check_store_id(request)
        memory = request.get(MEMORY)
        partitions = self._pod.registry.placed().definition.partitions
        if request.content_type != BATCH_MEDIA:
            message = await read_json(
                request,
                min(commit_bytes_max(partitions), self._settings.message_bytes_max),
                CommitRequest,
                self._pace,
                check_position_json,
                self._pod.turns,
                f"a batch names up to 4000 chunks for each of {partitions} partitions: let fewer "
                f"tasks write; or its position is too large: {LESS_POSITION}",
            )
            return self._coordination.commit(name, epoch, batch, message, (), memory)
        body = await read_body(request, CARRIED_BYTES_MAX, self._pace)
        message, chunk = decode_batch(body)
        rows = tuple(self._batches.slices_of(chunk))
        await self._batches.check_rows(rows)
        return self._coordination.commit(name, epoch, batch, message, rows, memory)

    async def abort(self, request: web.Request) -> web.Response:
        name, epoch, batch = _batch_of(request)
        self._check_store_id(request)
        message = await self._read(request, AbortRequest, STORE_ID)
        return json_response(await self._coordination.abort(name, epoch, batch, message))

    async def renew(self, request: web.Request) -> web.Response:
        epoch = WriterEpoch(_number(request, "epoch"))
        self._check_store_id(request)
        self._coordination.writers.renew(writer_name(request), epoch)
        return json_response(RenewAnswer(closes_after_s=self._settings.open_batch_timeout_s))

    async def stage(self, request: web.Request) -> web.Response:
        self._pod.registry.check_store(request.match_info["store"])
        name, epoch, batch = _batch_of(request)
        chunk = request.match_info["chunk"]
        if decode_chunk_id(chunk).writer_epoch != epoch:
            raise StaleWriterError(f"chunk {chunk} is not of writer epoch {epoch}")
        generation = _parsed("generation", _of_stage(request).get("generation", ""))
        self._check_store_id(request)
        body = await self._read_chunk(request)
        try:
            slices = self._batches.slices_of(body)
            await self._batches.check_rows(slices)
            stage = Stage(
                writer=name,
                generation=generation,
                batch=batch,
                writer_epoch=epoch,
                chunk=chunk,
            )
            return json_response(await self._batches.stage(stage, slices))
        finally:
            self._hold(-len(body))

    def _check_store_id(self, request: web.Request) -> None:
        """Refuses a run of a deleted store with the same name.

        Raises WrongStoreError, or MalformedRequestError if the request names no store id.
        """
        named = _of_stage(request).get(STORE_ID)
        if named is None:
            raise MalformedRequestError(
                "storeId is missing: writers name the id of the store that they write, as "
                "GET /state/instances/{store} gives it"
            )
        self._pod.registry.check_store_id(named)

    async def _read_chunk(self, request: web.Request) -> bytes:
        """The body, counted against `uncommittedMaxBytes` until its slices are in the log."""
        limit = self._pod.registry.placed().settings.uncommitted_bytes_max
        announced = request.content_length or self._settings.chunk_bytes_max
        if limit >= 0 and self._uncommitted_bytes and self._uncommitted_bytes + announced > limit:
            raise OverloadedError(
                f"{self._uncommitted_bytes} bytes are being staged and {announced} more would pass "
                f"uncommittedMaxBytes ({limit}): send again shortly",
                limit="uncommittedMaxBytes",
            )
        self._hold(announced)
        try:
            body = await read_body(request, self._settings.chunk_bytes_max, self._pace)
        except BaseException:
            self._hold(-announced)
            raise
        self._hold(len(body) - announced)
        return body

    def _hold(self, more: int) -> None:
        self._uncommitted_bytes += more
        self._pod.metrics.uncommitted_bytes.set(self._uncommitted_bytes)

    # --- Participants

    async def prepare(self, request: web.Request) -> web.Response:
        """Checks everything that could refuse a commit."""
        message = await self._read(request, PrepareRequest)
        return _told(request, await self._batches.prepare(message))

    async def commit_partitions(self, request: web.Request) -> web.Response:
        message = await self._read(request, CommitPartitionsRequest)
        return _told(request, await self._batches.commit(message))

    async def abort_partitions(self, request: web.Request) -> web.Response:
        message = await self._read(request, AbortPartitionsRequest)
        return _told(request, await self._batches.abort(message))

    async def resolve(self, request: web.Request) -> web.Response:
        """Answers whether the batch of old chunks is decided, dropped or open."""
        return json_response(self._coordination.resolve(await self._read(request, ResolveRequest)))

    async def sequences(self, request: web.Request) -> web.Response:
        """Compares the sequences of this pod with the sequences of another pod."""
        message = await self._read(request, SequencesRequest)
        return _told(request, await self._comparison.answer(message))

    async def configurations(self, request: web.Request) -> web.Response:
        """Tells another pod the newer configurations of its partitions."""
        asked = await self._read(request, ConfigurationsRequest)
        return json_response(self._comparison.configurations(asked))

    # --- Control

    async def accept_loss(self, request: web.Request) -> web.Response:
        """Accepts the loss of a partition; a coordinator then continues its decided batches."""
        message = await self._read(request, AcceptLossRequest)
        await self._kept.finish(self._accept_loss(message))
        return _told(request, self._pod.report())

    async def assign(self, request: web.Request) -> web.Response:
        """Takes an assignment; a coordinator then continues its decided batches."""
        assignment = await self._read(request, StoreAssignment)
        told = replace(
            assignment,
            resource_uid=request.headers.get(RESOURCE_UID, assignment.resource_uid),
            incarnation=request.headers.get(INCARNATION, assignment.incarnation),
            generation=_parsed(GENERATION, request.headers.get(GENERATION, "0")),
        )
        return _told(request, await self._kept.finish(self._assign(told)))

    async def retire(self, request: web.Request) -> web.Response:
        """Deletes a replica that its partition's configuration leaves out."""
        message = await self._read(request, RetireRequest)
        await self._kept.finish(self._pod.retire(message))
        return _told(request, self._pod.report())

    async def _accept_loss(self, message: AcceptLossRequest) -> None:
        await self._losses.accept(message)
        self._coordination.driver.go_on()

    async def _assign(self, assignment: StoreAssignment) -> ReplicasReport:
        report = await self._pod.assign(assignment)
        self._coordination.driver.go_on()
        return report

    async def take_conditions(self, request: web.Request) -> web.Response:
        """Keeps the conditions of the resource, for readers of the store's status."""
        told = await self._read(request, TellConditionsRequest)
        self._pod.registry.check_message_store(told.store_id)
        self._word.keep(told.conditions)
        return _told(request, self._pod.report())

    async def replicas(self, request: web.Request) -> web.Response:
        """The pod's report; with `wait` (seconds) and `after` (version) it waits for a change."""
        given = _parameters(request, "wait", "after")
        self._pod.report_feed.asked += 1
        self._word.hear()
        if "wait" not in given:
            return _told(request, self._pod.report())
        wait_s = min(_WAIT_MAX_S, float(_parsed("wait", given["wait"])))
        after = _parsed("after", given.get("after", "0"))
        await self._pod.report_feed.wait(after, wait_s)
        return _told(request, self._pod.report())

    async def _read(self, request: web.Request, kind: type[Message], *allowed: str) -> Message:
        _parameters(request, *allowed)
        return await read_json(request, self._settings.message_bytes_max, kind, self._pace)


def _told(request: web.Request, message: object) -> web.Response:
    """The answer to a pod or the operator, as the version that it names reads it."""
    body = encode(for_version(message, version_in(request.headers)))
    return web.Response(body=body, content_type="application/json", headers=OWN_VERSION)


def _batch_of(request: web.Request) -> tuple[str, WriterEpoch, int]:
    epoch = WriterEpoch(_number(request, "epoch"))
    return writer_name(request), epoch, _number(request, "batch")


def _number(request: web.Request, name: str) -> int:
    return _parsed(name, request.match_info[name])


def _of_stage(request: web.Request) -> dict[str, str]:
    return _parameters(request, STORE_ID, "generation")


def _parameters(request: web.Request, *allowed: str) -> dict[str, str]:
    return parse_parameters(request.rel_url.raw_query_string, allowed)


def _parsed(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise MalformedRequestError(f"{name} is a whole number, not {text[:40]!r}")
    return int(text)
