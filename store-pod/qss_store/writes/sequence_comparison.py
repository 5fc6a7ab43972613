"""Compares the sequences of all partitions, to find volumes that went back to an older state.

The pods exchange the sequences of their partitions before a pod serves, and from time to time.
`replicas.rollback_check` draws the conclusions. A partition that is behind is reported, and not
served.
"""

import asyncio
import logging

from qss_core.errors import (
    CorruptionError,
    DiskFullError,
    MalformedRequestError,
    NotReadyError,
    RolledBackError,
    StoreError,
    UnreachableError,
)
from qss_core.model import PartitionId, PodAddress, Role, Sequence, WriterEpoch
from qss_core.wire.losses import (
    BatchesHeld,
    ConfigurationsAnswer,
    ConfigurationsRequest,
    SequencesAnswer,
    SequencesRequest,
)
from qss_core.wire.versions import VERSION_1, for_version
from qss_store.replicas.pod import Pod
from qss_store.replicas.replica import Replica
from qss_store.runtime.peer_client import Transport
from qss_store.runtime.settings import Settings
from qss_store.transactions.losses import position_before, told_batches, told_decision

_LOG = logging.getLogger(__name__)
_RETRY_S = 0.1
_LATER_S = 1.0


class Comparison:
    """One pod's exchange of sequences with the others."""

    def __init__(self, pod: Pod, peers: Transport, settings: Settings) -> None:
        self._pod = pod
        self._peers = peers
        self._settings = settings
        self._told: set[PartitionId] = set()  # Partitions that the log has reported as behind.

    async def first(self) -> None:
        """Compares with the other pods before this pod serves.

        After `compareTimeout` it goes on without the pods that do not answer, and compares with
        them later: a store must be able to start without one of its pods.
        """
        try:
            async with asyncio.timeout(self._settings.compare_timeout_s):
                while True:
                    if await self.round():
                        break
                    await asyncio.sleep(_RETRY_S)
        except TimeoutError:
            _LOG.warning(
                "pod %s serves before it could compare its sequences with all other pods",
                self._pod.name,
            )
        finally:
            self._pod.registry.is_compared = True
            await self._pod.report_feed.tell()

    async def run(self) -> None:
        while True:
            is_complete = False
            try:
                is_complete = await self.round()
            except StoreError as error:
                _LOG.warning(
                    "comparing sequences failed, the next round tries again: %s", error.code
                )
            except Exception:  # noqa: BLE001 the top of a task.
                _LOG.exception("comparing sequences failed, the next round tries again")
            interval_s = self._settings.compare_interval_s
            await asyncio.sleep(interval_s if is_complete else min(_LATER_S, interval_s))

    async def round(self) -> bool:
        """Compares with all other pods; returns whether all have answered."""
        assignment = self._pod.registry.assignment
        if assignment is None:
            return True
        self._completed()  # The partitions of one pod are witnesses of each other.
        others = [pod for pod in assignment.pods if pod.ordinal != self._pod.ordinal]
        # `_ask` returns each failure: none ends the wait for the other pods.
        answers = await asyncio.gather(*(self._ask(pod) for pod in others))
        await self.look()
        return all(answers)

    async def look(self) -> None:
        """Reports replicas that are behind, once each."""
        self._completed()
        behind = {
            number: missing
            for number, replica in self._pod.registry.replicas.items()
            if (missing := self._pod.registry.completion.lacks(replica)) is not None
        }
        for number in behind.keys() - self._told:
            held = self._pod.registry.replicas[number].machine.participant.sequence
            told = "partition %s is behind: it holds sequence %s, and at least %s was completed"
            _LOG.error(told, number, held, behind[number])
        if self._told != behind.keys():
            self._told = set(behind)
            await self._pod.report_feed.tell()

    async def _ask(self, pod: PodAddress) -> bool:
        try:
            await self._hear_configurations(pod)
            self._learn(await self.ask(pod))
        except StoreError as error:
            _LOG.debug("%s does not tell its sequences: %s", pod.name, error.message)
            return False
        return True

    async def _hear_configurations(self, pod: PodAddress) -> None:
        """Takes the newer configurations that another pod knows of the replicas here.

        This pod's volume may be older than a move of its partitions: a sole replica would act.
        Raises StoreError.
        """
        held = self._pod.registry.replicas
        request = ConfigurationsRequest(
            store_id=self._pod.registry.placed().definition.store_id,
            epochs={str(number): one.log.configuration.epoch for number, one in held.items()},
        )
        url = f"{pod.changelog}/transactions/configurations"
        try:
            answer = await self._peers.post(url, request, ConfigurationsAnswer, self._timeout_s)
        except (UnreachableError, NotReadyError):
            raise
        except StoreError as error:  # A pod of an older version has no such route.
            _LOG.debug("%s does not tell its configurations: %s", pod.name, error.message)
            return
        for configuration in answer.newer:
            if (replica := held.get(configuration.partition)) is not None:
                replica.following.hear(configuration)

    def configurations(self, request: ConfigurationsRequest) -> ConfigurationsAnswer:
        """The newer configurations that this pod knows. Raises WrongStoreError, NotReadyError."""
        self._pod.registry.check_message_store(request.store_id)
        known = self._pod.registry.placed().partitions
        return ConfigurationsAnswer(
            newer=tuple(
                newest
                for entry in known
                if (epoch := request.epochs.get(str(entry.partition))) is not None
                and (newest := self._pod.registry.configuration(entry.partition)).epoch > epoch
            )
        )

    @property
    def _timeout_s(self) -> float:
        return min(self._settings.compare_timeout_s, self._settings.peer_timeout_s)

    async def ask(self, pod: PodAddress, partition: PartitionId | None = None) -> SequencesAnswer:
        """The sequences of another pod, and the batches that its `partition` knows.

        Raises StoreError.
        """
        request = SequencesRequest(
            store_id=self._pod.registry.placed().definition.store_id,
            sequences=self._sequences(),
            completed=self._completed(),
            forgotten=self._pod.registry.completion.forgotten,
            writer_epoch=self._newest_epoch(),
            partition=partition,
        )
        url = f"{pod.changelog}/transactions/sequences"
        try:
            return await self._peers.post(url, request, SequencesAnswer, self._timeout_s)
        except MalformedRequestError:  # A pod of the version before refuses unknown members.
            plain = for_version(request, VERSION_1)
            return await self._peers.post(url, plain, SequencesAnswer, self._timeout_s)

    async def answer(self, request: SequencesRequest) -> SequencesAnswer:
        """The sequences of this pod; takes the sequences of the other pod from the request.

        Raises WrongStoreError, and NotReadyError before this pod has opened its replicas.
        """
        self._pod.registry.check_message_store(request.store_id)
        if not self._pod.has_opened:
            raise NotReadyError("the pod is opening its replicas: ask again")
        told = SequencesAnswer(
            sequences=request.sequences,
            completed=request.completed,
            forgotten=request.forgotten,
            writer_epoch=request.writer_epoch,
        )
        self._learn(told)
        await self.look()
        return SequencesAnswer(
            sequences=self._sequences(),
            completed=self._completed(),
            forgotten=self._pod.registry.completion.forgotten,
            writer_epoch=self._newest_epoch(),
            held=None if request.partition is None else self.held(request.partition),
        )

    def held(self, partition: PartitionId) -> BatchesHeld | None:
        """The batches that a partition here has applied; None where it is lost or behind.

        Raises NotReadyError before it serves, NotPresentError where another pod has it.
        """
        try:
            replica = self._pod.registry.local(partition)
        except (CorruptionError, RolledBackError):
            return None
        if not _is_witness(replica):
            raise NotReadyError(f"partition {partition} is being opened by pod {self._pod.name}")
        participant, coordinator = replica.machine.participant, replica.machine.coordinator
        failed = replica.failure is not None and not isinstance(replica.failure, DiskFullError)
        if replica.view is None or replica.pending.commits or failed:
            raise NotReadyError(f"partition {partition} is applying a batch: ask again")
        unfinished = coordinator.unfinished if coordinator else None
        position = participant.position
        if unfinished is not None and unfinished.sequence == participant.sequence:
            position = position_before(position, unfinished)
        return BatchesHeld(
            sequence=participant.sequence,
            completed=coordinator.completed if coordinator else Sequence(participant.sequence - 1),
            decided=coordinator.decided if coordinator else participant.sequence,
            position=position.to_json(),
            last=told_batches(participant.last),
            unfinished=None if unfinished is None else told_decision(unfinished),
            inputs=participant.inputs.told(),
        )

    def _learn(self, answer: SequencesAnswer) -> None:
        completion = self._pod.registry.completion
        completion.learn(
            completed=answer.completed,
            forgotten=answer.forgotten,
            writer_epoch=answer.writer_epoch,
        )
        for sequence in answer.sequences.values():
            completion.learn(held=sequence)

    def _newest_epoch(self) -> WriterEpoch:
        return self._pod.registry.completion.newest_epoch(self._pod.registry.replicas.values())

    def _sequences(self) -> dict[str, Sequence]:
        """The sequence that readers see in each active replica: its rows are durable."""
        return {
            str(number): replica.view.sequence
            for number, replica in self._pod.registry.replicas.items()
            if _is_witness(replica) and replica.view is not None
        }

    def _completed(self) -> Sequence:
        completion = self._pod.registry.completion
        for sequence in self._sequences().values():
            completion.learn(held=sequence)
        replica = self._pod.registry.replicas.get(PartitionId(0))
        # A standby's coordinator may lack the last decisions: its active has them.
        is_witness = replica is not None and replica.role is Role.ACTIVE and replica.is_recovered
        if is_witness and replica is not None and replica.machine.coordinator:
            completion.learn_of(replica.machine.coordinator)
        return completion.completed


def _is_witness(replica: Replica) -> bool:
    return replica.role is Role.ACTIVE and replica.view is not None and replica.is_recovered
