"""Sends the coordinator's requests to participants: one a pod, an answer for each partition."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress

import msgspec

from qss_client.chunks.chunk import Slice
from qss_core.errors import StoreError, UnreachableError
from qss_core.model import Epoch, Ordinal, PartitionId, WriterEpoch
from qss_core.wire.messages import (
    AbortPartitionsRequest,
    CommitPartitionsRequest,
    PartitionsAnswer,
    PrepareRequest,
    Problem,
    problem_of,
)
from qss_store.replicas.pod import Pod
from qss_store.runtime.peer_client import Transport
from qss_store.runtime.settings import Settings
from qss_store.writes.participant_service import ParticipantService

_LOOK_EVERY_S = 0.1
_NO_ROWS: Mapping[PartitionId, Slice] = {}
Message = PrepareRequest | CommitPartitionsRequest | AbortPartitionsRequest
MakeMessage = Callable[[dict[str, Epoch]], Message]


class ParticipantClient:
    """The actives of the store's partitions, this pod's own among them."""

    def __init__(
        self, pod: Pod, batches: ParticipantService, peers: Transport, settings: Settings
    ) -> None:
        """`batches` serves this pod's own partitions, `peers` reaches other pods' partitions."""
        self._pod = pod
        self._batches = batches
        self._peers = peers
        self._settings = settings

    @property
    def everybody(self) -> list[str]:
        """All partitions, as messages name them."""
        return [
            str(partition) for partition in range(self._pod.registry.placed().definition.partitions)
        ]

    async def ask(
        self, what: str, message: MakeMessage, partitions: list[str]
    ) -> dict[str, Problem]:
        """Sends a request to the actives of the partitions; returns the failures by partition."""
        answers = await self._ask_pods(what, message, partitions, _NO_ROWS)
        for answer in answers:
            self._pod.registry.completion.learn(writer_epoch=answer.writer_epoch)
        return _failures_in(answers)

    async def newest_epoch(self, message: MakeMessage) -> WriterEpoch:
        """The highest writer epoch that any pod has seen; waits for pods up to `compareTimeout`.

        `message` makes a PrepareRequest without a batch.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settings.compare_timeout_s):
                await self.ask("prepare", message, self.everybody)
        return self._pod.registry.completion.writer_epoch

    async def commit(
        self,
        message: MakeMessage,
        partitions: list[str],
        rows: Mapping[PartitionId, Slice],
    ) -> tuple[dict[str, Problem], dict[str, int]]:
        """Has the actives of the partitions commit; returns failures and dropped rows by partition.

        Each request carries the `rows` of its pod's partitions.
        """
        answers = await self._ask_pods("commit", message, partitions, rows)
        dropped = {name: rows for answer in answers for name, rows in answer.dropped.items()}
        return _failures_in(answers), dropped

    async def _ask_pods(
        self,
        what: str,
        message: MakeMessage,
        partitions: list[str],
        rows: Mapping[PartitionId, Slice],
    ) -> list[PartitionsAnswer]:
        by_pod: dict[Ordinal, dict[str, Epoch]] = {}
        for partition in partitions:
            configuration = self._pod.registry.configuration(int(partition))
            by_pod.setdefault(configuration.active, {})[partition] = configuration.epoch
        return await asyncio.gather(
            *(
                self._ask_pod(what, ordinal, message(epochs), rows)
                for ordinal, epochs in by_pod.items()
            )
        )

    async def _ask_pod(
        self, what: str, ordinal: Ordinal, message: Message, rows: Mapping[PartitionId, Slice]
    ) -> PartitionsAnswer:
        try:
            if ordinal == self._pod.ordinal:
                return await self._ask_here(message, rows)
            if rows and isinstance(message, CommitPartitionsRequest):
                theirs = {str(one.partition): bytes(one.data) for one in rows.values()}
                theirs = {name: theirs[name] for name in message.epochs if name in theirs}
                message = msgspec.structs.replace(message, rows=theirs)
            url = f"{self._pod.registry.address(ordinal).changelog}/transactions/{what}"
            timeout_s = self._settings.peer_timeout_s
            async with self._while_active(ordinal, message.epochs):
                answer = await self._peers.post(url, message, PartitionsAnswer, timeout_s)
        except StoreError as error:
            return PartitionsAnswer(partitions=dict.fromkeys(message.epochs, problem_of(error)))
        missing = message.epochs.keys() - answer.partitions.keys()
        silent = problem_of(UnreachableError("the pod did not answer for this partition"))
        partitions = {**answer.partitions, **dict.fromkeys(missing, silent)}
        return msgspec.structs.replace(answer, partitions=partitions)

    @asynccontextmanager
    async def _while_active(
        self, ordinal: Ordinal, epochs: Mapping[str, Epoch]
    ) -> AsyncIterator[None]:
        """Gives up inside the block once another pod has the active of one of the partitions.

        The pod may stand still. Raises UnreachableError; the request may still be carried out, as
        after any other lost answer.
        """
        loop = asyncio.get_running_loop()
        timers: list[asyncio.TimerHandle] = []

        def look() -> None:
            placed = (self._pod.registry.configuration(int(name)) for name in epochs)
            if any(entry.active != ordinal for entry in placed):
                scope.reschedule(loop.time())
            else:
                timers[:] = [loop.call_later(_LOOK_EVERY_S, look)]

        try:
            async with asyncio.timeout(None) as scope:
                timers.append(loop.call_later(_LOOK_EVERY_S, look))
                try:
                    yield
                finally:
                    timers[0].cancel()
        except TimeoutError as error:
            if not scope.expired():
                raise
            raise UnreachableError("the partition has its active on another pod now") from error

    def _ask_here(
        self, message: Message, rows: Mapping[PartitionId, Slice]
    ) -> Awaitable[PartitionsAnswer]:
        match message:
            case PrepareRequest():
                return self._batches.prepare(message)
            case CommitPartitionsRequest():
                return self._batches.commit(message, rows)
            case AbortPartitionsRequest():
                return self._batches.abort(message)


def _failures_in(answers: Iterable[PartitionsAnswer]) -> dict[str, Problem]:
    return {
        partition: problem
        for answer in answers
        for partition, problem in answer.partitions.items()
        if problem is not None
    }
