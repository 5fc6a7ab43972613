"""Reads the batches that the coordinator has not seen itself from the log of partition 0.

A pod that has become the coordinator, or has started again, knows none of the batches before. The
log has them until its retention cuts them: the decision of a batch, and behind it the commit in
partition 0, which tells that this decision was taken and not refused.
"""

import asyncio
from collections.abc import Collection, Iterable

from qss_core.errors import StoreError
from qss_core.model import Epoch, Offset, PartitionId, Sequence
from qss_core.wire.discovery import LoggedBatch
from qss_core.wire.messages import Decision, PartitionCommit, rows_of
from qss_store.replicas.pod import Pod
from qss_store.replicas.replica import Replica
from qss_store.replication.entries import decode_entry, decode_head, encode_offset
from qss_store.storage.engine import CHANGELOG
from qss_store.transactions.commands import Commit, Decide, Kind, command_of

BATCHES_MAX = 1000
_ENTRIES_MAX = 10_000  # Looked at in one epoch.
_SECONDS_MAX = 1.0  # A pod that passes the request on waits for two.
_TURN_S, _ENTRIES_OF_A_TURN = 0.001, 25  # The decision of a batch with many chunks has a MiB.
_KINDS = (Kind.DECIDE, Kind.COMMIT)
_Run = tuple[str, int, int, int]


class EarlierBatches:
    """The newest batches in the log of partition 0; the log is read once in an epoch."""

    def __init__(self, pod: Pod) -> None:
        self._pod = pod
        # The kept batches are of this epoch: later, batches may be lost, or come from another pod.
        self._epoch: Epoch | None = None
        self._kept: dict[int, LoggedBatch] = {}
        self._floor = 0  # Batches up to this sequence were looked for, and are not again.
        self._looking = asyncio.Lock()

    async def after(self, sequence: int, known: Collection[int]) -> tuple[LoggedBatch, ...]:
        """The complete batches above a sequence that are not `known`, in order, up to 1000.

        `known` are all sequences that the coordinator has seen, whatever `sequence` is. Call it on
        the coordinator. A log that cannot be read tells no batch.
        """
        async with self._looking:
            if missing := self._missing(known):
                await self._look(missing)
        told = (one for number, one in self._kept.items() if number not in known)
        return tuple(one for one in told if one.sequence > sequence)

    def _missing(self, known: Collection[int]) -> set[int]:
        """The sequences of complete batches that neither memory has."""
        replica = self._replica()
        coordinator = replica.machine.coordinator if replica else None
        if replica is None or coordinator is None:
            return set()
        if (epoch := replica.log.configuration.epoch) != self._epoch:
            self._epoch, self._kept, self._floor = epoch, {}, 0
        first = max(self._floor, coordinator.completed - BATCHES_MAX) + 1
        return {*range(first, coordinator.completed + 1)} - {*known} - self._kept.keys()

    def _replica(self) -> Replica | None:
        return self._pod.registry.replicas.get(PartitionId(0))

    async def _look(self, missing: set[int]) -> None:
        """Keeps the missing batches that the log has."""
        reading = BatchReading(missing)
        if not await self._read(reading):
            return  # The next request looks again.
        self._floor = max(self._floor, *(missing - reading.found.keys()), 0)
        kept = sorted((self._kept | reading.found).items())
        self._kept = dict(kept[-BATCHES_MAX:])

    async def _read(self, reading: "BatchReading") -> bool:
        """Reads the log from its end for a second at most; False where its replica went away."""
        until_s = self._pod.clock.monotonic_s() + _SECONDS_MAX
        upper: Offset | None = None
        left = _ENTRIES_MAX
        while not reading.is_done and self._pod.clock.monotonic_s() < until_s:
            async with self._pod.turns:
                replica = self._replica()
                if replica is None or replica.log.configuration.epoch != self._epoch:
                    return False
                log = replica.changelog.log
                upper = log.end if upper is None else upper
                most = min(left, _ENTRIES_OF_A_TURN, upper - log.start)
                if most <= 0:
                    break
                try:
                    count = self._read_turn(replica, upper, most, reading)
                except StoreError:
                    break  # A damaged entry: the replica says so elsewhere.
                upper, left = Offset(upper - count), left - count
                # No replica is held while others have their turn: it may be closed meanwhile.
                del replica
        return True

    def _read_turn(
        self, replica: Replica, upper: Offset, most: int, reading: "BatchReading"
    ) -> int:
        """Reads at least one entry below `upper`, and at most `most`; returns their number."""
        clock = self._pod.clock
        until_s = clock.monotonic_s() + _TURN_S
        for count in range(1, most + 1):
            data = replica.engine.get(CHANGELOG, encode_offset(upper - count))
            if data is not None:
                reading.read([data])
            if reading.is_done or clock.monotonic_s() >= until_s:
                return count
        return most


class BatchReading:
    """Pairs decisions with the commits behind them, from the newest entry to the oldest."""

    def __init__(self, missing: set[int]) -> None:
        self.found: dict[int, LoggedBatch] = {}
        self._missing = missing
        self._oldest = min(missing)
        self._committed: dict[int, _Run] = {}
        self.is_done = False

    def read(self, entries: Iterable[bytes]) -> None:
        """Reads further entries, newest first. Raises CorruptionError."""
        for data in entries:
            if decode_head(data).kind not in _KINDS:
                continue
            match command_of(decode_entry(data)).command:
                case Commit(commit=commit):
                    self._committed[commit.sequence] = _run_of(commit)
                    self.is_done |= commit.sequence < self._oldest
                case Decide(decision=decision):
                    self._note(decision)

    def _note(self, decision: Decision) -> None:
        number = decision.sequence
        if number in self._missing and self._committed.get(number) == _run_of(decision):
            self.found[number] = LoggedBatch(
                sequence=Sequence(number),
                writer=decision.writer,
                batch=decision.batch,
                rows=rows_of(decision),
                committed_at_ms=decision.wall_time_ms,
            )
            self.is_done |= len(self.found) == len(self._missing)


def _run_of(batch: Decision | PartitionCommit) -> _Run:
    return batch.writer, batch.generation, batch.writer_epoch, batch.batch
