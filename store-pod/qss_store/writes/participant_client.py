"""Sends the coordinator's requests to participants: one a pod, an answer for each partition."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress

import msgspec

from qss_client.chunks.chunk import Slice
from qss_core.errors import StoreError, UnreachableError
from qss_core.model import Epoch, Ordinal, PartitionId, Sequence, StoreId, WriterEpoch
from qss_core.wire.messages import (
    AbortPartitionsRequest,
    ChunkReference,
    CommitPartitionsRequest,
    Decision,
    PartitionsAnswer,
    PrepareRequest,
    Problem,
    problem_of,
)
from qss_store.replicas.pod import Pod
from qss_store.runtime.peer_client import Transport
from qss_store.runtime.settings import Settings
from qss_store.transactions.writers import Writer
from qss_store.writes.commit_checks import check_message
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
    def all_partitions(self) -> list[str]:
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

    async def prepare(
        self,
        held: Writer,
        batch: int,
        chunks: Mapping[str, tuple[ChunkReference, ...]],
        *,
        carried_bytes: int,
        sequence: Sequence,
    ) -> dict[str, Problem]:
        """Asks all partitions to prepare a batch; returns the failures by partition.

        `sequence` is the batch's, if it is decided.
        """

        def message(epochs: dict[str, Epoch]) -> PrepareRequest:
            return PrepareRequest(
                store_id=self._store_id,
                epochs=epochs,
                writer=held.name,
                generation=held.generation,
                batch=batch,
                writer_epoch=held.writer_epoch,
                chunks={name: listed for name, listed in chunks.items() if name in epochs},
                carried_bytes=carried_bytes,
                sequence=sequence,
            )

        return await self.ask("prepare", message, self.all_partitions)

    async def prepare_no_batch(self, sequence: Sequence | None = None) -> dict[str, Problem]:
        """Asks all partitions whether they serve, and may take `sequence` next."""

        def message(epochs: dict[str, Epoch]) -> PrepareRequest:
            return PrepareRequest(
                store_id=self._store_id,
                epochs=epochs,
                writer="",
                generation=0,
                batch=0,
                writer_epoch=WriterEpoch(0),
                chunks={},
                sequence=sequence,
            )

        return await self.ask("prepare", message, self.all_partitions)

    async def newest_epoch(self) -> WriterEpoch:
        """The highest writer epoch that any pod has seen; waits for pods up to `compareTimeout`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settings.compare_timeout_s):
                await self.prepare_no_batch()
        return self._pod.registry.completion.writer_epoch

    async def abort(
        self, writer: str, ordinal: tuple[int, int], writer_epoch: WriterEpoch
    ) -> dict[str, Problem]:
        """Has all partitions drop the chunks of a writer's runs up to `writer_epoch`.

        Chunks before `ordinal`, a (generation, batch), stay. Returns the failures by partition.
        """
        generation, batch = ordinal

        def message(epochs: dict[str, Epoch]) -> AbortPartitionsRequest:
            return AbortPartitionsRequest(
                store_id=self._store_id,
                epochs=epochs,
                writer=writer,
                generation=generation,
                batch=batch,
                writer_epoch=writer_epoch,
            )

        return await self.ask("abort", message, self.all_partitions)

    def check_decision(self, decision: Decision, carried_bytes: int) -> None:
        """Raises TooLargeError for a decision whose message no other pod would read."""
        registry = self._pod.registry
        message = CommitPartitionsRequest(
            store_id=self._store_id,
            epochs={name: registry.configuration(int(name)).epoch for name in self.all_partitions},
            decision=decision,
        )
        check_message(message, carried_bytes, self._settings.message_bytes_max)

    @property
    def _store_id(self) -> StoreId:
        return self._pod.registry.placed().definition.store_id

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
        # `_ask_pod` makes each failure an answer: none ends the wait for the other pods.
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
