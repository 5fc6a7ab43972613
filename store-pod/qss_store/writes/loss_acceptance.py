"""Continues a partition without its lost batches, after a person accepted the loss.

A person accepts a loss by an annotation of the resource. A participant takes the sequence and the
position of partition 0. Partition 0 takes the highest sequence of the other partitions and, from a
partition at that sequence, the last batch of each writer. The rows stay as they are. The partition
keeps and reports its losses until a batch replaces all rows.
"""

import asyncio
import logging

import msgspec

from qss_core.errors import CorruptionError, NotReadyError
from qss_core.model import PartitionId, Sequence, StoreAssignment
from qss_core.positions import Position
from qss_core.wire.losses import AcceptLossRequest, BatchesHeld
from qss_core.wire.messages import Decision
from qss_store.replicas.append_wait import outcome_of
from qss_store.replicas.pod import Pod
from qss_store.replicas.replica import Replica
from qss_store.replicas.rollback_check import RollbackCheck
from qss_store.replication.log import stale_epoch
from qss_store.transactions.commands import AcceptLoss
from qss_store.transactions.losses import position_before, told_decision
from qss_store.writes.sequence_comparison import Comparison

_LOG = logging.getLogger(__name__)
_NONE = Sequence(0)
_NOTHING = BatchesHeld(sequence=_NONE, completed=_NONE, decided=_NONE, position={}, last=())


class LossAcceptance:
    """Carries out the accepted losses of one pod, one at a time."""

    def __init__(self, pod: Pod, comparison: Comparison) -> None:
        self._pod = pod
        self._comparison = comparison
        self._accepting = asyncio.Lock()

    async def accept(self, request: AcceptLossRequest) -> None:
        """Continues the partition without its lost batches; does nothing where it lacks none.

        Raises WrongStoreError, StaleEpochError where the partition has another epoch than the
        person named, and UnreachableError or NotReadyError where a needed pod does not answer.
        Raises NotReadyError also where a volume without its assignment has a database of the
        partition that cannot be opened: a learner may have more than what is left in it.
        """
        async with self._accepting:
            if request.assignment is not None and self._pod.registry.assignment is None:
                await self._take_assignment(request.assignment, request.partition)
            self._check(request)
            replica = self._pod.registry.replicas.get(request.partition)
            if replica is not None and isinstance(replica.failure, CorruptionError):
                replica = None
                await self._pod.taking_out.take_out_unwritable(request.partition)
            if replica is not None and self._pod.registry.completion.lacks(replica) is None:
                await self._pod.marks.settle(request.store_id, request.partition)
                return
            if replica is None:
                await self._pod.salvage(
                    request.partition, lambda one: self._take(one, request, is_salvaged=True)
                )
            else:
                await self._take(replica, request, is_salvaged=False)
            self._pod.registry.completion.lacking.pop(request.partition, None)
            await self._comparison.look()
            await self._pod.report_feed.tell()

    async def _take_assignment(self, assignment: StoreAssignment, accepted: PartitionId) -> None:
        _LOG.error(
            "the volume lost its assignment: the data of partitions that it does not hold is lost"
        )
        had_database = accepted in self._pod.report().unassigned
        await self._pod.assign(assignment, is_emptied=True)
        await self._comparison.first()
        if had_database and self._pod.registry.unopened.is_lost(accepted):
            raise NotReadyError(
                f"the database of partition {accepted} cannot be opened, as the pod reports now: "
                "the operator accepts its loss anew, or has a learner go on"
            )

    async def _take(
        self, replica: Replica, request: AcceptLossRequest, *, is_salvaged: bool
    ) -> None:
        held = await self._held_elsewhere(request.partition, replica)
        before = replica.machine.participant.sequence
        await outcome_of(replica, AcceptLoss(held=held, is_salvaged=is_salvaged))
        is_known = held.completed > before
        last = f"to {held.completed}" if is_known else "and later, if there were any"
        told = "partition %s continues without sequences %s %s: loss accepted in epoch %s"
        _LOG.error(told, request.partition, before + 1, last, request.epoch)

    def _check(self, request: AcceptLossRequest) -> None:
        self._pod.registry.check_message_store(request.store_id)
        configuration = self._pod.registry.configuration(request.partition)
        if configuration.epoch != request.epoch or configuration.active != self._pod.ordinal:
            raise stale_epoch(
                configuration,
                f"partition {request.partition} is in epoch {configuration.epoch} with its active "
                f"on pod {configuration.active}; the loss was accepted in epoch {request.epoch}",
            )

    async def _held_elsewhere(self, partition: PartitionId, replica: Replica) -> BatchesHeld:
        if partition != 0:
            held = await self._held_by(PartitionId(0))
            if held is None:
                raise NotReadyError(
                    "partition 0 is lost or behind, and only partition 0 knows which batches are "
                    "complete: bring its volume back, or accept its loss first"
                )
            return held
        others = [
            number for number in range(self._pod.registry.placed().definition.partitions) if number
        ]
        told = [await self._held_by(PartitionId(number)) for number in others]
        best = max(filter(None, told), key=lambda one: one.sequence, default=_NOTHING)
        coordinator = replica.machine.coordinator
        assert coordinator is not None, "partition 0 has a coordinator"
        return held_of_all(best, self._pod.registry.completion, coordinator.decision)

    async def _held_by(self, partition: PartitionId) -> BatchesHeld | None:
        """The batches that a partition has applied; None where the partition is lost or behind."""
        active = self._pod.registry.configuration(partition).active
        if active == self._pod.ordinal:
            return self._comparison.held(partition)
        return (await self._comparison.ask(self._pod.registry.address(active), partition)).held


def held_of_all(
    best: BatchesHeld, completion: RollbackCheck, decision: Decision | None
) -> BatchesHeld:
    """The batches that partition 0 takes from `best`, the partition with the highest sequence.

    `decision` is the last decision that partition 0 has. Where it may be unfinished, it will be
    completed. A decision that is lost, or that has lost its rows, cannot be completed: partitions
    that have not applied it lack its batch.
    """
    decided = max(best.sequence, completion.decided, completion.unreadable)
    completed = max(best.completed, completion.completed)
    goes_on = (
        decision is not None
        and decided == decision.sequence == completed + 1
        and decided != completion.unreadable
    )
    if decision is None or not goes_on:
        return msgspec.structs.replace(
            best, sequence=decided, completed=decided, decided=decided, unfinished=None
        )
    position = Position.from_json(best.position)
    if best.sequence == decided:
        position = position_before(position, decision)
    return msgspec.structs.replace(
        best,
        sequence=completed,
        completed=completed,
        decided=decided,
        position=position.to_json(),
        unfinished=told_decision(decision),
    )
