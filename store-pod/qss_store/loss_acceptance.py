"""Goes on without batches that a partition lost, where a person said so by an annotation.

A participant takes over the coordinator's sequence and position; partition 0 the highest sequence
of the other partitions and, from what one that holds it knows, the last batch of each writer. The
rows stay as they are: what is lost is kept and told until all rows are replaced.
"""

import asyncio
import logging

from qss_core.errors import NotReadyError, StaleEpochError, WrongStoreError
from qss_core.losses import AcceptLossRequest, BatchesHeld
from qss_core.model import PartitionId, Sequence
from qss_store.comparison import Comparison
from qss_store.outcomes import outcome_of
from qss_store.pod import Pod
from qss_store.replication.entries import AcceptLoss

_LOG = logging.getLogger(__name__)
_NONE = Sequence(0)
_NOTHING = BatchesHeld(sequence=_NONE, completed=_NONE, decided=_NONE, position={}, last=())


class LossAcceptance:
    """What one pod does of accepted losses; one at a time."""

    def __init__(self, pod: Pod, comparison: Comparison) -> None:
        self._pod = pod
        self._comparison = comparison
        self._accepting = asyncio.Lock()

    async def accept(self, request: AcceptLossRequest) -> None:
        """Goes on without what the partition lacks; nothing where it lacks nothing.

        Raises WrongStoreError, StaleEpochError where the partition has another epoch than the
        person named, UnreachableError or NotReadyError where a pod that has to be asked is silent.
        """
        async with self._accepting:
            if request.assignment is not None and self._pod.assignment is None:
                _LOG.error("the volume is empty and was not: its partitions are lost")
                await self._pod.assign(request.assignment, is_emptied=True)
            self._check(request)
            replica = self._pod.replicas.get(request.partition)
            if replica is not None and self._pod.completion.lacks(replica) is None:
                return
            held = await self._held_elsewhere(request.partition)
            if replica is None:
                async with self._pod.salvaging(request.partition) as replica:
                    before = replica.machine.participant.sequence
                    await outcome_of(replica, AcceptLoss(held=held, is_salvaged=True))
            else:
                before = replica.machine.participant.sequence
                await outcome_of(replica, AcceptLoss(held=held))
            told = "partition %s goes on without sequence %s to %s, as accepted in epoch %s"
            _LOG.error(told, request.partition, before + 1, held.sequence, request.epoch)
            await self._comparison.look()
            await self._pod.news.tell()

    def _check(self, request: AcceptLossRequest) -> None:
        held = self._pod.placed().definition.store_id
        if request.store_id != held:
            raise WrongStoreError(f"this pod serves store id {held}, not {request.store_id}")
        configuration = self._pod.configuration(request.partition)
        if configuration.epoch != request.epoch or configuration.active != self._pod.ordinal:
            raise StaleEpochError(
                f"partition {request.partition} is in epoch {configuration.epoch} with its active "
                f"on pod {configuration.active}; the loss was accepted in epoch {request.epoch}",
                partition=request.partition,
                epoch=configuration.epoch,
                active=configuration.active,
            )

    async def _held_elsewhere(self, partition: PartitionId) -> BatchesHeld:
        if partition != 0:
            held = await self._held_by(PartitionId(0))
            if held is None:
                raise NotReadyError(
                    "partition 0 is lost or behind itself, and says what was completed: bring its "
                    "volume back, or accept its loss first"
                )
            return held
        others = [number for number in range(self._pod.placed().definition.partitions) if number]
        told = [await self._held_by(PartitionId(number)) for number in others]
        best = max(filter(None, told), key=lambda one: one.sequence, default=_NOTHING)
        decided = max(best.sequence, self._pod.completion.decided)
        return BatchesHeld(
            sequence=decided,
            completed=decided,
            decided=decided,
            position=best.position,
            last=best.last,
        )

    async def _held_by(self, partition: PartitionId) -> BatchesHeld | None:
        """What a partition knows of batches; None where it is lost or behind itself."""
        active = self._pod.configuration(partition).active
        if active == self._pod.ordinal:
            return self._comparison.held(partition)
        return (await self._comparison.ask(self._pod.address(active), partition)).held
