"""Reads the batches that the coordinator has not seen itself from the log of partition 0.

A pod that has become the coordinator, or has started again, knows none of the batches before. The
log has them until its retention cuts them: the decision of a batch, and behind it the commit in
partition 0, which tells that this decision was taken and not refused.
"""

import asyncio
from collections.abc import Collection, Iterable

from qss_core.errors import StoreError
from qss_core.model import Offset, PartitionId, Sequence
from qss_core.wire.discovery import LoggedBatch
from qss_core.wire.messages import Decision, PartitionCommit, rows_of
from qss_store.replicas.pod import Pod
from qss_store.replicas.replica import Replica
from qss_store.replication.entries import decode_entry, encode_offset
from qss_store.storage.engine import CHANGELOG
from qss_store.transactions.commands import Commit, Decide, Kind, command_of

BATCHES_MAX = 1000
_ENTRIES_MAX = 10_000  # Looked at by one answer.
_AT_ONCE = 25
_KINDS = (Kind.DECIDE, Kind.COMMIT)
_Run = tuple[str, int, int, int]


class EarlierBatches:
    """The newest batches in the log of partition 0; each one is read once."""

    def __init__(self, pod: Pod) -> None:
        self._pod = pod
        self._kept: dict[int, LoggedBatch] = {}
        self._floor = 0  # Batches up to this sequence were looked for, and are not again.
        self._looking = asyncio.Lock()

    async def after(self, sequence: int, known: Collection[int]) -> tuple[LoggedBatch, ...]:
        """The complete batches above a sequence that are not `known`, in order, up to 1000.

        Call it on the coordinator. A log that cannot be read tells no batch.
        """
        async with self._looking:
            if missing := self._missing(sequence, known):
                found = await self._read(missing)
                self._floor = max(self._floor, *(missing - found.keys()), 0)
                kept = sorted((self._kept | found).items())
                self._kept = dict(kept[-BATCHES_MAX:])
        told = (one for number, one in self._kept.items() if number not in known)
        return tuple(one for one in told if one.sequence > sequence)

    def _missing(self, sequence: int, known: Collection[int]) -> set[int]:
        """The sequences of complete batches that neither memory has."""
        replica = self._replica()
        coordinator = replica.machine.coordinator if replica else None
        if coordinator is None:
            return set()
        first = max(sequence, self._floor, coordinator.completed - BATCHES_MAX) + 1
        return {*range(first, coordinator.completed + 1)} - {*known} - self._kept.keys()

    def _replica(self) -> Replica | None:
        return self._pod.registry.replicas.get(PartitionId(0))

    async def _read(self, missing: set[int]) -> dict[int, LoggedBatch]:
        """The missing batches that the log has, from its end to the oldest of them."""
        reading = BatchReading(missing)
        replica = self._replica()
        upper = replica.changelog.log.end if replica else 0
        least = upper - _ENTRIES_MAX
        # No replica is held while others have their turn: it may be closed meanwhile.
        del replica
        while upper > least and not reading.is_done:
            async with self._pod.turns:
                if (replica := self._replica()) is None:
                    break
                lower = max(replica.changelog.log.start, least, upper - _AT_ONCE)
                if lower >= upper:
                    break
                try:
                    reading.read(_entries(replica, Offset(lower), Offset(upper)))
                except StoreError:
                    break  # A damaged entry: the replica says so elsewhere.
                upper = lower
                del replica
        return reading.found


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
            entry = decode_entry(data)
            if entry.kind not in _KINDS:
                continue
            match command_of(entry).command:
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


def _run_of(batch: Decision | PartitionCommit) -> _Run:
    return batch.writer, batch.generation, batch.writer_epoch, batch.batch


def _entries(replica: Replica, lower: Offset, upper: Offset) -> list[bytes]:
    """The entries of lower <= offset < upper, newest first."""
    bounds = {"lower": encode_offset(lower), "upper": encode_offset(upper)}
    return [data for _, data in replica.engine.scan(CHANGELOG, **bounds)][::-1]
