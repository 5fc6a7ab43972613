"""Sends a decided batch to all partitions until all have applied it.

The decision and the rows that it carries are in the log: after a crash the next active of partition
0 reads them there, and continues without the writer.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Any

from qss_client.chunks.chunk import Slice
from qss_core.errors import (
    BatchInProgressError,
    CorruptionError,
    NotReadyError,
    RolledBackError,
    StoreError,
)
from qss_core.model import Epoch, PartitionId
from qss_core.wire.messages import CommitPartitionsRequest, Decision
from qss_store.replicas.append_wait import outcome_of
from qss_store.replicas.apply.dropped_rows import DroppedRows
from qss_store.replicas.pod import Pod
from qss_store.replicas.replica import Replica
from qss_store.runtime.settings import Settings
from qss_store.storage.commit_rows.commit_writer import read_payload
from qss_store.transactions.commands import Complete
from qss_store.transactions.coordinator import Coordinator
from qss_store.writes.coordinator_tasks import RecentBatches
from qss_store.writes.participant_client import MakeMessage, ParticipantClient
from qss_store.writes.participant_service import ParticipantService

_LOG = logging.getLogger(__name__)
_FIRST_RETRY_S = 0.02
_LAST_RETRY_S = 0.1
_NOT_READY_S = 0.05
_Carried = tuple[Decision | None, Mapping[PartitionId, Slice]]
_NOTHING: _Carried = (None, {})


def active_coordinator(pod: Pod) -> tuple[Replica, Coordinator]:
    """Partition 0's active and its coordinator; raises as `ActiveService.check`."""
    replica = pod.registry.local(0)
    replica.acting.check()
    coordinator = replica.machine.coordinator
    assert coordinator is not None, "partition 0 has a coordinator"
    return replica, coordinator


def _resolve(waited_for: "asyncio.Future[None]") -> None:
    if not waited_for.done():
        waited_for.set_result(None)


class CommitDriver:
    """Drives the one decision that may be incomplete, on the pod that coordinates."""

    def __init__(
        self,
        pod: Pod,
        batches: ParticipantService,
        participants: ParticipantClient,
        settings: Settings,
    ) -> None:
        self._pod = pod
        self._batches = batches
        self._participants = participants
        self._settings = settings
        self._task: asyncio.Task[bool] | None = None
        self._later: asyncio.Task[None] | None = None
        # Resolved when all partitions have applied the task's decision, or when the task ends.
        self._applied: asyncio.Future[None] | None = None
        self._carried = _NOTHING
        self.dropped = DroppedRows[Mapping[str, int]]()
        self.recent = RecentBatches()

    @property
    def tasks(self) -> list[asyncio.Task[Any]]:
        """The background tasks, if there are any."""
        return [*([self._task] if self._task else []), *([self._later] if self._later else [])]

    def carries(self, decision: Decision, rows: Iterable[Slice]) -> None:
        """Keeps the rows of a decision that will be logged with them next."""
        self._carried = (decision, {one.partition: one for one in rows})

    def go_on(self) -> None:
        """Drives the decision that is not complete, if this pod coordinates and there is one."""
        if not self._pod.registry.is_active(0) or (self._task and not self._task.done()):
            return
        try:
            _, coordinator = active_coordinator(self._pod)
        except RolledBackError:
            return  # Each request to the coordinator raises the same error.
        except NotReadyError:
            if self._later is None or self._later.done():
                self._later = asyncio.create_task(self._go_on_later(), name="decision-later")
            return
        if coordinator.unfinished:
            applied = self._applied = asyncio.get_running_loop().create_future()
            self._task = asyncio.create_task(self._drive(applied), name="finish-decision")
            self._task.add_done_callback(lambda task: self._has_ended(task, applied))

    async def _go_on_later(self) -> None:
        """Waits while partition 0 is opened, compared, or begins an epoch."""
        await asyncio.sleep(_NOT_READY_S)
        self._later = None
        self.go_on()

    def _has_ended(self, task: asyncio.Task[bool], applied: "asyncio.Future[None]") -> None:
        _resolve(applied)
        if not task.cancelled() and task.exception() is None and task.result():
            self.go_on()  # The next batch may have been decided meanwhile.

    async def finish(self) -> None:
        """Waits until no decision is incomplete.

        Raises BatchInProgressError where that takes too long, and as `active_coordinator`.
        """
        self.go_on()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=self._settings.finish_timeout_s)
            if self._task.done():
                self._task.result()  # Raises an unexpected error of the task here, too.
        # This pod may not coordinate any more, or not yet: then it does not know.
        _, coordinator = active_coordinator(self._pod)
        if coordinator.unfinished:
            raise BatchInProgressError("a decided batch is not applied everywhere yet: try again")

    async def apply(self) -> None:
        """Waits until all partitions have applied the decision; raises as `finish`.

        It does not wait until the log has the Complete entry: no other batch is decided before, and
        an active that finds the decision incomplete only sends it to all partitions once more.
        """
        self.go_on()
        if self._applied is not None:
            await asyncio.wait([self._applied], timeout=self._settings.finish_timeout_s)
            if self._task is not None and not self._task.done() and self._applied.done():
                return
        await self.finish()

    async def _drive(self, applied: "asyncio.Future[None]") -> bool:
        """Whether the batch was completed."""
        try:
            await self._commit_everywhere(applied)
        except StoreError as error:
            _LOG.warning(
                "the decided batch is not complete, and will be sent again: %s", error.code
            )
            return False
        return True

    async def _commit_everywhere(self, applied: "asyncio.Future[None]") -> None:
        replica, coordinator = active_coordinator(self._pod)
        decision = coordinator.unfinished
        if decision is None:
            return
        try:
            rows = self._rows_of(replica, coordinator, decision)
        except CorruptionError:
            # No other pod has the rows: only a person can accept their loss.
            self._pod.registry.completion.unreadable = decision.sequence
            raise
        remaining = self._participants.all_partitions
        delay_s = _FIRST_RETRY_S
        dropped: dict[str, int] = {}
        told: set[str] = set()
        while remaining:
            failures, of_some = await self._participants.commit(
                self._commit_message(decision), remaining, rows
            )
            dropped |= of_some
            remaining = list(failures)
            if remaining:
                if failures.keys() != told:
                    _LOG.info("sequence %s waits for partitions %s", decision.sequence, remaining)
                    told = set(failures)
                await asyncio.sleep(delay_s)
                delay_s = min(_LAST_RETRY_S, delay_s * 2)
        self.dropped.keep(decision.sequence, dropped)
        self.recent.end(decision, self._pod.clock.monotonic_s())
        _resolve(applied)
        while coordinator.completed < decision.sequence:
            await outcome_of(replica, Complete(sequence=decision.sequence))
        self._carried = _NOTHING

    def _rows_of(
        self, replica: Replica, coordinator: Coordinator, decision: Decision
    ) -> Mapping[PartitionId, Slice]:
        """The rows that a decision carries: kept since it was made, or read from the log."""
        if not decision.carries_rows:
            return {}
        known, rows = self._carried
        if known == decision:  # Kept rows may be those of a decision that was refused.
            return rows
        assert coordinator.decision_offset is not None, "there is a decision"
        payload = read_payload(replica.engine, coordinator.decision_offset)
        return {one.partition: one for one in self._batches.slices_of(payload)}

    def _commit_message(self, decision: Decision) -> MakeMessage:
        def message(epochs: dict[str, Epoch]) -> CommitPartitionsRequest:
            return CommitPartitionsRequest(
                store_id=self._pod.registry.placed().definition.store_id,
                epochs=epochs,
                decision=decision,
            )

        return message
