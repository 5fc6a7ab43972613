"""Staged slices: the record of each, all of a partition, and those that readers see. Pure.

A reader of uncommitted rows sees, of each writer, the slices of the highest writer epoch, of the
highest batch of that epoch, and of the newest attempt of each task, in the order in which they were
staged. A partition knows only its own log: readers see the slices of a fenced run until the younger
run has staged or committed a slice here, and those of an attempt until a newer attempt has.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, ValuesView
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from qss_core.errors import ChunkMismatchError, ChunkMissingError, StaleWriterError
from qss_core.formats.timed_keys import SEQUENCE_MAX
from qss_core.model import Offset, WriterEpoch
from qss_core.wire.chunk_ids import decode_chunk_id
from qss_core.wire.messages import CarriedRows, ChunkReference, PartitionCommit, decode, encode
from qss_store.transactions.commands import Abort, Stage
from qss_store.transactions.commit_plan import Changes, RowsByKey
from qss_store.transactions.state_rows import AppliedBatch

_STAGED = b"staged/"  # The writer and the chunk id follow.


class StagedChunk(Stage, frozen=True, kw_only=True):
    """A slice in the log that is neither committed nor dropped."""

    offset: Offset
    wall_time_ms: int

    @property
    def ordinal(self) -> tuple[int, int]:
        """The place of its batch in the writer's order: (generation, batch)."""
        return (self.generation, self.batch)


class Clocks(NamedTuple):
    """Counters that applied rows advance: the stream time (ms) and the rows with a value."""

    stream_time: int
    puts: int

    def after(self, rows: StagedChunk | CarriedRows, wall_time_ms: int) -> "Clocks":
        """The counters after these rows are applied; undated rows have the time `wall_time_ms`."""
        stream_time, puts = self
        if rows.undated:
            stream_time = max(stream_time, wall_time_ms)
        if rows.latest is not None:
            stream_time = max(stream_time, rows.latest)
            puts = (puts + rows.records - rows.deletes) & SEQUENCE_MAX
        return Clocks(stream_time, puts)


class Uncommitted(NamedTuple):
    """The visible slices of a partition, and the counters of its committed rows."""

    chunks: tuple[StagedChunk, ...]
    clocks: Clocks


def staged_key(chunk: StagedChunk) -> bytes:
    """The key of a chunk's meta row."""
    return _STAGED + msgspec.json.encode([chunk.writer, chunk.chunk])


def is_closed_by(commit: PartitionCommit, writer: str, ordinal: tuple[int, int]) -> bool:
    """Whether a commit applies or drops the chunks of a (generation, batch)."""
    return writer == commit.writer and ordinal <= (commit.generation, commit.batch)


def staged_in(rows: Mapping[bytes, bytes]) -> dict[tuple[str, str], StagedChunk]:
    """The chunks that meta rows hold, by writer and id."""
    held = (decode(row, StagedChunk) for key, row in rows.items() if key.startswith(_STAGED))
    return {(chunk.writer, chunk.chunk): chunk for chunk in held}


def visible_chunks(
    staged: Iterable[StagedChunk], committed: Mapping[str, WriterEpoch]
) -> tuple[StagedChunk, ...]:
    """The chunks that readers see; `committed` has the epoch of each writer's last commit."""
    by_writer: defaultdict[str, list[StagedChunk]] = defaultdict(list)
    for one in staged:
        by_writer[one.writer].append(one)
    seen: list[StagedChunk] = []
    for writer, chunks in by_writer.items():
        epoch = max(committed.get(writer, 0), max(one.writer_epoch for one in chunks))
        of_run = [one for one in chunks if one.writer_epoch == epoch]
        seen += _newest_attempts(of_run)
    return tuple(sorted(seen, key=lambda one: one.offset))


def _newest_attempts(of_run: list[StagedChunk]) -> list[StagedChunk]:
    """The chunks of the newest attempt of each task, in the run's highest batch."""
    if not of_run:
        return []
    ordinal = max(one.ordinal for one in of_run)
    of_batch = [(one, decode_chunk_id(one.chunk)) for one in of_run if one.ordinal == ordinal]
    newest: dict[str, int] = {}
    for _, told in of_batch:
        newest[told.task] = max(newest.get(told.task, 0), told.attempt)
    return [one for one, told in of_batch if told.attempt == newest[told.task]]


def newest_epoch(staged: Iterable[StagedChunk], last: Iterable[AppliedBatch]) -> WriterEpoch:
    """The highest writer epoch of staged and of committed rows; 0 where there are none."""
    epochs = [one.writer_epoch for one in staged] + [one.writer_epoch for one in last]
    return max(epochs, default=WriterEpoch(0))


def check_newest(
    writer: str,
    writer_epoch: WriterEpoch,
    staged: Iterable[StagedChunk],
    last: AppliedBatch | None,
) -> None:
    """Raises StaleWriterError where a younger run of the writer has staged or committed rows.

    A coordinator whose volume went back to an older state may not know the younger run.
    """
    of_writer = (one for one in staged if one.writer == writer)
    newest = newest_epoch(of_writer, filter(None, (last,)))
    if writer_epoch < newest:
        raise StaleWriterError(
            f"writer {writer} has rows of a younger run here (epoch {newest}, yours is "
            f"{writer_epoch}): stop this run, or open the writer anew"
        )


def overdue(staged: Iterable[StagedChunk], now_ms: int, timeout_ms: int) -> list[StagedChunk]:
    """One chunk of each (writer, batch, run) with chunks that are older than `timeout_ms`."""
    groups = {
        (chunk.writer, chunk.ordinal, chunk.writer_epoch): chunk
        for chunk in staged
        if now_ms - chunk.wall_time_ms > timeout_ms
    }
    return list(groups.values())


def is_aborted(abort: Abort, chunk: StagedChunk) -> bool:
    """Whether an abort drops a chunk."""
    if chunk.writer != abort.writer:
        return False
    ordinal = (abort.generation, abort.batch)
    if abort.only_this_batch:
        return (chunk.ordinal, chunk.writer_epoch) == (ordinal, abort.writer_epoch)
    return chunk.writer_epoch <= abort.writer_epoch and chunk.ordinal >= ordinal


@dataclass(slots=True)
class StagedSlices:
    """The slices of a partition that are neither committed nor dropped."""

    by_id: dict[tuple[str, str], StagedChunk] = field(default_factory=dict)  # And by writer.
    _visible: tuple[StagedChunk, ...] | None = field(default=None, compare=False, repr=False)

    @classmethod
    def load(cls, rows: RowsByKey) -> "StagedSlices":
        """The slices that meta rows hold."""
        return cls(staged_in(rows))

    def copy(self) -> "StagedSlices":
        """The same slices; a change of the copy does not change them here."""
        return StagedSlices({**self.by_id}, self._visible)

    def values(self) -> ValuesView[StagedChunk]:
        return self.by_id.values()

    @property
    def open_floor(self) -> Offset | None:
        """The offset of the oldest Stage entry whose slice is staged; None where none is."""
        return min((chunk.offset for chunk in self.values()), default=None)

    def visible(self, last: Mapping[str, AppliedBatch]) -> tuple[StagedChunk, ...]:
        """The slices that readers see; `last` has the last applied batch of each writer.

        The answer is kept until a slice is added or dropped.
        """
        if self._visible is None:
            writers = {writer for writer, _ in self.by_id}
            epochs = {writer: last[writer].writer_epoch for writer in writers if writer in last}
            self._visible = visible_chunks(self.values(), epochs)
        return self._visible

    def is_new(self, stage: Stage) -> bool:
        """Whether the slice is not staged yet; False for a repeat of a staged slice.

        Raises ChunkMismatchError where a chunk of this id is staged with other rows.
        """
        held = self.by_id.get((stage.writer, stage.chunk))
        if held is None:
            return True
        same = (held.checksum, held.ordinal) == (stage.checksum, (stage.generation, stage.batch))
        if not same:
            raise ChunkMismatchError(
                f"chunk {stage.chunk} is staged with other rows: give every attempt its own id"
            )
        return False

    def add(self, offset: Offset, wall_time_ms: int, stage: Stage) -> Changes:
        """Keeps a new slice; returns its meta row."""
        chunk = StagedChunk(
            offset=offset, wall_time_ms=wall_time_ms, **msgspec.structs.asdict(stage)
        )
        self.by_id[stage.writer, stage.chunk] = chunk
        self._visible = None
        return {staged_key(chunk): encode(chunk)}

    def listed(
        self,
        writer: str,
        ordinal: tuple[int, int],
        writer_epoch: WriterEpoch,
        chunks: Iterable[ChunkReference],
    ) -> list[StagedChunk]:
        """The slices that a batch lists, in order. Raises ChunkMissingError."""
        found = []
        for reference in chunks:
            held = self.by_id.get((writer, reference.id))
            wanted = (ordinal, writer_epoch, reference.records, reference.checksum)
            if held is None or wanted != (
                held.ordinal,
                held.writer_epoch,
                held.records,
                held.checksum,
            ):
                raise ChunkMissingError(
                    f"chunk {reference.id} of writer {writer} is not staged here as the commit "
                    "names it: stage it again, nothing was decided",
                    chunk=reference.id,
                )
            found.append(held)
        return found

    def drop(self, chunks: Iterable[StagedChunk]) -> Changes:
        """Forgets slices; returns the changes of their meta rows."""
        changes: Changes = {}
        self._visible = None
        for chunk in chunks:
            del self.by_id[chunk.writer, chunk.chunk]
            changes[staged_key(chunk)] = None
        return changes
