"""Opens writers and decides batches, on the pod that has partition 0's active.

`transactions.coordinator` has the rules; this service logs in partition 0 and asks the other pods.
It keeps no state outside the log: after a crash at any line the next active of partition 0 reads
the log, and completes a decision without the writer.
"""

import asyncio
from collections.abc import Awaitable, Coroutine, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from qss_client.chunks.chunk import Slice
from qss_core.errors import (
    BatchInProgressError,
    MalformedRequestError,
    Retry,
    RolledBackError,
    StaleWriterError,
    StoreError,
)
from qss_core.model import Sequence, WriterEpoch
from qss_core.wire.messages import (
    AbortAnswer,
    AbortRequest,
    CommitAnswer,
    CommitRequest,
    Decision,
    OpenWriterRequest,
    Problem,
    ResolveAnswer,
    ResolveRequest,
    WriterOpened,
    error_of,
    metadata_of,
)
from qss_core.wire.writer_reports import WriterReport
from qss_store.replicas.append_wait import AppendWait, outcome_of, settle
from qss_store.replicas.pod import Pod
from qss_store.replicas.replica import Replica
from qss_store.runtime.peer_client import Transport
from qss_store.runtime.request_memory import MemoryShare
from qss_store.runtime.settings import Settings
from qss_store.transactions.commands import CloseWriter, Decide, OpenWriter
from qss_store.transactions.coordinator import Coordinator
from qss_store.transactions.writers import Writer, check_replay
from qss_store.writes.commit_checks import check_position_after, check_request, references
from qss_store.writes.commit_driver import CommitDriver, active_coordinator
from qss_store.writes.coordinator_tasks import CoordinatorTasks
from qss_store.writes.participant_client import ParticipantClient
from qss_store.writes.participant_service import ParticipantService
from qss_store.writes.writer_registry import WriterRegistry


class CoordinatorService:
    """The coordinator's service; all that it has to keep is in the log of partition 0."""

    def __init__(
        self, pod: Pod, own: ParticipantService, peers: Transport, settings: Settings
    ) -> None:
        self._pod = pod
        self.writers = WriterRegistry(pod, settings)
        self._participants = ParticipantClient(pod, own, peers, settings)
        self.driver = CommitDriver(pod, own, self._participants, settings)
        self._settings = settings
        self._deciding = asyncio.Lock()
        self._tasks = CoordinatorTasks()
        self.recent = self.driver.recent

    # --- Writers

    async def open(self, name: str, request: OpenWriterRequest) -> WriterOpened:
        """Opens a writer: fences older runs, completes the decided batch, then answers."""
        replica, coordinator = active_coordinator(self._pod)
        await self.writers.make_room()
        if not coordinator.last_epoch:
            await self._check_made()
        if coordinator.check_open(name, request) is None:
            await outcome_of(
                replica,
                OpenWriter(
                    writer=name,
                    query_id=request.query_id,
                    run_id=request.run_id,
                    open_id=request.open_id,
                    take_over=request.take_over,
                    one_off=request.one_off,
                    above=await self._participants.newest_epoch(),
                ),
            )
        await self.driver.finish()
        held = coordinator.writer(name)
        if held.open_id != request.open_id:
            raise StaleWriterError(f"a younger run of writer {name} has opened: stop this one")
        self.writers.hear(held)
        if held.former_opens:
            self._tasks.run(self._drop_staged(name, WriterEpoch(held.writer_epoch - 1)))
        assignment = self._pod.registry.placed()
        return WriterOpened(
            store_id=assignment.definition.store_id,
            writer_epoch=held.writer_epoch,
            generation=held.generation,
            last_batch=held.last_batch,
            sequence=coordinator.decided,
            chunk_bytes_max=self._settings.chunk_bytes_max,
            metadata=metadata_of(assignment),
        )

    async def _check_made(self) -> None:
        """Refuses the store's first writer until every partition serves, and is empty.

        After the first entry of partition 0 the store exists: from then on an empty volume of a pod
        counts as lost data.
        """
        self._refuse(await self._participants.prepare_no_batch(Sequence(1)))

    def _refuse(self, failures: Mapping[str, Problem]) -> None:
        """Raises the first failure; a partition that is ahead of partition 0 is noted."""
        if not failures:
            return
        errors = [error_of(problem) for problem in failures.values()]
        for error in errors:
            if isinstance(error, RolledBackError) and error.details.get("partition") == 0:
                self._pod.registry.completion.learn(held=Sequence(error.details["completed"]))
        # An error that a repeat cannot mend comes first.
        raise min(errors, key=lambda error: error.retry is not Retry.NEVER)

    async def delete_writer(self, name: str, *, force: bool) -> WriterReport:
        """Deletes a writer as `WriterRegistry.delete`, after the decided batch is complete.

        Then all partitions drop the chunks that its runs have staged.
        """
        await self.driver.finish()
        report, epoch = await self.writers.delete(name, force=force)
        self._tasks.run(self._drop_staged(name, epoch))
        return report

    async def _drop_staged(self, name: str, newest: WriterEpoch) -> None:
        """Has all partitions drop the chunks of runs up to an epoch; a sweep drops the rest."""
        await self._participants.abort(name, (0, 0), newest)

    # --- Batches

    def commit(
        self,
        name: str,
        writer_epoch: WriterEpoch,
        batch: int,
        request: CommitRequest,
        rows: tuple[Slice, ...] = (),
        memory: MemoryShare | None = None,
    ) -> Awaitable[CommitAnswer]:
        """Prepares, decides and commits a batch; answers when every partition has applied it.

        `rows` are the rows of a small batch that were not staged: the decision carries them. The
        commit continues when its client goes: otherwise a decision would wait for the next round of
        the sweeper. A caller that keeps no request gives its `memory`, which the commit keeps.
        """
        if rows:
            if request.chunks:
                raise MalformedRequestError(
                    "the commit lists staged chunks and carries rows: send only one of the two"
                )
            request = msgspec.structs.replace(request, chunks=references(writer_epoch, rows))

        def work() -> Coroutine[Any, Any, CommitAnswer]:
            return self._commit(name, writer_epoch, batch, request, rows)

        return self._tasks.commit((name, writer_epoch), batch, request, work, memory)

    async def _commit(
        self,
        name: str,
        writer_epoch: WriterEpoch,
        batch: int,
        request: CommitRequest,
        rows: tuple[Slice, ...],
    ) -> CommitAnswer:
        asked_s = self._pod.clock.monotonic_s()
        replica, coordinator = active_coordinator(self._pod)
        check_request(request, self._pod.registry.placed().definition.partitions)
        async with self._deciding:
            await self._logged_decision(replica)
            await self.driver.finish()
            held = coordinator.check_run(name, writer_epoch, request.generation)
            self.writers.hear(held)
            replayed = check_replay(held, batch, request.fingerprint, request.chunks)
            if replayed is not None:
                return self._answer(replica, replayed.sequence, already_applied=True)
            coordinator.check_order(held, batch)
            check_position_after(replica.machine.participant, coordinator, held, batch, request)
            sequence = Sequence(coordinator.decided + 1)
            await self._prepare(sequence, held, batch, request, rows)
            decision = self.make_decision(
                coordinator, held, batch, request, carries_rows=bool(rows)
            )
            payload = b"".join(one.data for one in rows)
            self._participants.check_decision(decision, len(payload))
            self.driver.carries(decision, rows)
            self.recent.begin(decision, asked_s)
            await outcome_of(
                replica, Decide(decision=decision, payload_bytes=len(payload)), payload
            )
            await self.driver.apply()
        return self._answer(replica, decision.sequence, already_applied=False)

    async def _logged_decision(self, replica: Replica) -> None:
        """Waits for a decision in the log that is not applied yet: its client gave up waiting.

        A second decision after it would be refused when it is applied, and its rows would be logged
        in vain. Raises BatchInProgressError where the wait takes too long.
        """
        logged = replica.pending.decision
        if logged is not None:
            awaited = AppendWait(replica, logged)
            await settle([awaited])
            with suppress(StoreError):  # The request of that decision gets the error.
                awaited.result()
            if not logged.done():
                raise BatchInProgressError("a decision is being logged: try again")

    def make_decision(
        self,
        coordinator: Coordinator,
        held: Writer,
        batch: int,
        request: CommitRequest,
        *,
        carries_rows: bool,
    ) -> Decision:
        return Decision(
            sequence=Sequence(coordinator.decided + 1),
            writer=held.name,
            generation=held.generation,
            batch=batch,
            writer_epoch=held.writer_epoch,
            chunks=request.chunks,
            position=request.position,
            wall_time_ms=coordinator.time_of_next(self._pod.clock.wall_ms()),
            fingerprint=request.fingerprint,
            replace=request.replace,
            one_off=held.one_off,
            carries_rows=carries_rows,
            forgotten=coordinator.forgotten_by(held.name),
        )

    def _answer(
        self, replica: Replica, sequence: Sequence, *, already_applied: bool
    ) -> CommitAnswer:
        position = replica.machine.participant.position
        return CommitAnswer(
            sequence=sequence,
            already_applied=already_applied,
            position=position.to_json(),
            dropped=dict(self.driver.dropped.of(sequence) or {}),
        )

    async def _prepare(
        self,
        sequence: Sequence,
        held: Writer,
        batch: int,
        request: CommitRequest,
        rows: tuple[Slice, ...],
    ) -> None:
        failures = await self._participants.prepare(
            held,
            batch,
            {} if rows else request.chunks,
            carried_bytes=sum(len(one.data) for one in rows),
            sequence=sequence,
        )
        self._refuse(failures)

    async def abort(
        self, name: str, writer_epoch: WriterEpoch, batch: int, request: AbortRequest
    ) -> AbortAnswer:
        """Gives a batch up: closes the run, then drops its chunks. A decided batch stays."""
        replica, coordinator = active_coordinator(self._pod)
        coordinator.check_abort(name, writer_epoch, request.generation)
        if coordinator.was_decided(name, writer_epoch, request.generation, batch):
            return AbortAnswer(decided=True)
        await outcome_of(replica, CloseWriter(writer=name, writer_epoch=writer_epoch))
        coordinator.check_abort(name, writer_epoch, request.generation)  # It decides none any more.
        if coordinator.was_decided(name, writer_epoch, request.generation, batch):
            return AbortAnswer(decided=True)
        if not coordinator.may_drop(name, (request.generation, batch)):
            return AbortAnswer(decided=False)  # The sweeper drops the chunks later.
        # A partition that does not get the request drops the chunks in a later sweep.
        await self._participants.abort(name, (request.generation, batch), writer_epoch)
        return AbortAnswer(decided=False)

    def resolve(self, request: ResolveRequest) -> ResolveAnswer:
        """The coordinator's verdict on old chunks; drives a decision that needs them."""
        self._pod.registry.check_message_store(request.store_id)
        replica, coordinator = active_coordinator(self._pod)
        replica.acting.check(request.epoch)
        ordinal = (request.generation, request.batch)
        verdict = coordinator.verdict(request.writer, request.writer_epoch, ordinal)
        if verdict == "decided":
            self.driver.go_on()
        return ResolveAnswer(verdict=verdict)

    @property
    def tasks(self) -> list[asyncio.Task[Any]]:
        """The background tasks; the pod cancels them when it stops."""
        return [*self._tasks.tasks, *self.driver.tasks]
