"""A simple model of one partition's committed and staged rows, and random batches."""

from dataclasses import dataclass, field
from random import Random  # noqa: TID251 tests give the seed.

import msgspec

from qss_core.model import Sequence as BatchSequence
from qss_core.model import StoreDefinition, StoreType, WriterEpoch
from qss_core.wire.messages import ChunkReference, PartitionCommit
from qss_store.replicas.replica import Replica
from qss_store.transactions.commands import Abort, Commit, Stage
from qss_store.writes.participant_service import with_slice
from qss_testing.pods.stores import Put, slice_of
from qss_testing.reference.store_reference import Rows, visible_chunks

MINUTE = 60_000
_KEYS = [b"a", b"a\x00", b"aa", b"b", b"\xff"]


@dataclass(frozen=True)
class Held:
    """One chunk that is staged and not committed."""

    writer: str
    epoch: int
    batch: int
    task: str
    attempt: int
    chunk: str
    puts: list[Put]
    reference: ChunkReference
    stage: Stage
    payload: bytes


@dataclass
class Model:
    """Drives one replica with random steps, and computes the rows that its readers must see."""

    random: Random
    definition: StoreDefinition
    committed: Rows = field(default_factory=Rows)
    staged: list[Held] = field(default_factory=list)
    epochs: dict[str, int] = field(default_factory=lambda: {"v": 1, "w": 2})
    batches: dict[str, int] = field(default_factory=lambda: {"v": 0, "w": 0})
    committed_epochs: dict[str, int] = field(default_factory=dict)
    newest_epoch: int = 2
    number: int = 0
    sequence: int = 0

    # --- The expected rows

    def uncommitted(self) -> Rows:
        """The committed rows with the rows of the visible chunks over them."""
        rows = self.committed
        for held in self.visible():
            rows = rows.with_puts(held.puts, self.definition)
        return rows

    def visible(self) -> list[Held]:
        """The staged chunks that no younger run, batch or attempt replaces.

        The commit of a younger run hides the chunks of older runs, too.
        """
        return visible_chunks(self.staged, self.committed_epochs)

    # --- The steps

    async def step(self, replica: Replica) -> None:
        act = self.random.choices(
            [self.stage, self.stage_again, self.commit, self.abort, self.fence, self.replay],
            [10, 2, 3, 1, 1, 1],
        )[0]
        await act(replica)

    async def stage(self, replica: Replica) -> None:
        """Stages a chunk of a run's open batch, or of a fenced run."""
        writer = self.random.choice(sorted(self.epochs))
        epoch = self.random.choice([self.epochs[writer]] * 4 + [1])
        task, attempt = f"t{self.random.randrange(3)}", self.random.randrange(4)
        self.number += 1
        # A chunk id of a task attempt, or of the driver, which has no attempt.
        chunk = self.random.choice(
            [f"{epoch}.{task}a{attempt}-{self.number}.0", f"{epoch}.driver{self.number}-0.0"]
        )
        if "driver" in chunk:
            task, attempt = chunk, 0
        puts = self.random_puts()
        piece = slice_of(replica.definition, replica.partition, puts)
        stage = Stage(
            writer=writer,
            generation=1,
            batch=self.batches[writer],
            writer_epoch=WriterEpoch(epoch),
            chunk=chunk,
        )
        stage = with_slice(stage, piece)
        payload = bytes(piece.data)
        outcome = await replica.append(stage, payload, self.random.choice([(), piece.batches]))
        assert outcome.failure is None, outcome.failure
        reference = ChunkReference(id=chunk, records=piece.records, checksum=piece.checksum)
        self.staged.append(
            Held(
                writer,
                epoch,
                self.batches[writer],
                task,
                attempt,
                chunk,
                puts,
                reference,
                stage,
                payload,
            )
        )

    def random_puts(self) -> list[Put]:
        """A few rows by key: some delete, some are late, some advance the stream time far."""
        random = self.random
        around = max(0, self.committed.stream_time) // MINUTE
        puts = []
        for _ in range(random.randrange(1, 8)):
            start = max(0, around + random.randrange(-12, 5)) * MINUTE
            start += random.choice([0, 0, 0, 20 * MINUTE]) if random.random() < 0.1 else 0
            self.number += 1
            value = None if random.random() < 0.2 else b'"%d"' % self.number
            end = start + random.randrange(2) * MINUTE
            stamp = None if self.definition.type is StoreType.SESSION else self.number
            puts.append(Put(random.choice(_KEYS), value, stamp, start=start, end=end))
        return sorted(puts, key=lambda put: put.key)

    async def stage_again(self, replica: Replica) -> None:
        """Stages a chunk again, as a writer does whose answer was lost."""
        if self.staged:
            held = self.random.choice(self.staged)
            outcome = await replica.append(held.stage, held.payload)
            assert outcome.failure is None, outcome.failure

    async def commit(self, replica: Replica) -> None:
        """Commits the batch of the youngest run: one attempt of each task, not always the last."""
        writer = self.random.choice(sorted(self.epochs))
        epoch, batch = self.epochs[writer], self.batches[writer]
        of_batch = [
            one
            for one in self.staged
            if (one.writer, one.epoch, one.batch) == (writer, epoch, batch)
        ]
        winners: dict[str, int] = {}
        for one in of_batch:
            if one.task not in winners or self.random.random() < 0.5:
                winners[one.task] = one.attempt
        listed = [one for one in of_batch if one.attempt == winners[one.task]]
        replaces = self.random.random() < 0.1
        self.sequence += 1
        await self._commit(
            replica,
            PartitionCommit(
                sequence=BatchSequence(self.sequence),
                writer=writer,
                generation=1,
                batch=batch,
                writer_epoch=WriterEpoch(epoch),
                chunks=tuple(one.reference for one in listed),
                position={"in": {"0": self.sequence}},
                wall_time_ms=1_700_000_000_000,
                replace=replaces,
            ),
        )
        if replaces:
            self.committed = Rows(puts=self.committed.puts)
        for one in listed:
            self.committed = self.committed.with_puts(one.puts, self.definition)
        self.staged = [one for one in self.staged if one.writer != writer or one.batch > batch]
        self.committed_epochs[writer] = epoch
        self.batches[writer] += 1

    async def _commit(self, replica: Replica, commit: PartitionCommit) -> None:
        outcome = await replica.append(Commit(commit=commit))
        assert outcome.failure is None, outcome.failure
        self.last = commit

    async def replay(self, replica: Replica) -> None:
        """Appends the last commit again, and asserts that it has no plan."""
        if self.sequence:
            outcome = await replica.append(Commit(commit=self.last))
            assert outcome.plan is None

    async def abort(self, replica: Replica) -> None:
        """Aborts the batch of a run, and opens a younger run."""
        writer = self.random.choice(sorted(self.epochs))
        epoch, batch = self.epochs[writer], self.batches[writer]
        abort = Abort(writer=writer, generation=1, batch=batch, writer_epoch=WriterEpoch(epoch))
        await replica.append(abort)
        self.staged = [one for one in self.staged if one.writer != writer]
        await self.fence(replica, writer)

    async def fence(self, replica: Replica, writer: str | None = None) -> None:
        """Opens a younger run of a writer; the partition gets no message of it."""
        self.newest_epoch += 1
        self.epochs[writer or self.random.choice(sorted(self.epochs))] = self.newest_epoch


def in_format(definition: StoreDefinition, store_format: str) -> StoreDefinition:
    """The same store in another format."""
    return msgspec.structs.replace(definition, format=store_format)
