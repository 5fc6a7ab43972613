"""A dumb reference of one partition's committed and staged rows, and batches at random."""

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
    """A staged chunk."""

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
    """Drives one replica, and knows what readers of it should see."""

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

    # --- What is to be seen

    def uncommitted(self) -> Rows:
        """The committed rows, and those of the visible chunks."""
        rows = self.committed
        for held in self.visible():
            rows = rows.with_puts(held.puts, self.definition)
        return rows

    def visible(self) -> list[Held]:
        """Those of which no younger run, batch or attempt is staged."""
        return visible_chunks(self.staged, self.committed_epochs)

    # --- What happens

    async def step(self, replica: Replica) -> None:
        """Something at random."""
        act = self.random.choices(
            [self.stage, self.stage_again, self.commit, self.abort, self.fence, self.replay],
            [10, 2, 3, 1, 1, 1],
        )[0]
        await act(replica)

    async def stage(self, replica: Replica) -> None:
        """A chunk of a run's open batch, or of a run that was fenced."""
        writer = self.random.choice(sorted(self.epochs))
        epoch = self.random.choice([self.epochs[writer]] * 4 + [1])
        task, attempt = f"t{self.random.randrange(3)}", self.random.randrange(4)
        self.number += 1
        # A commit of an older run may have come to this batch; its own rows are refused then.
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
        """A few rows, sorted by key; some delete, some are late, some move the time far."""
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
        """The same chunk once more: a retry whose answer was lost."""
        if self.staged:
            held = self.random.choice(self.staged)
            outcome = await replica.append(held.stage, held.payload)
            assert outcome.failure is None, outcome.failure

    async def commit(self, replica: Replica) -> None:
        """A batch of a run that is not fenced: one attempt of each task, perhaps not the last."""
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
        """The last commit, or a chunk of it, once more: nothing happens."""
        if self.sequence:
            outcome = await replica.append(Commit(commit=self.last))
            assert outcome.plan is None

    async def abort(self, replica: Replica) -> None:
        """A run gives its batch up, and opens anew."""
        writer = self.random.choice(sorted(self.epochs))
        epoch, batch = self.epochs[writer], self.batches[writer]
        abort = Abort(writer=writer, generation=1, batch=batch, writer_epoch=WriterEpoch(epoch))
        await replica.append(abort)
        self.staged = [one for one in self.staged if one.writer != writer]
        await self.fence(replica, writer)

    async def fence(self, replica: Replica, writer: str | None = None) -> None:
        """A younger run of a writer opens; the partition does not hear of it."""
        self.newest_epoch += 1
        self.epochs[writer or self.random.choice(sorted(self.epochs))] = self.newest_epoch


def in_format(definition: StoreDefinition, store_format: str) -> StoreDefinition:
    """The same store in another format."""
    return msgspec.structs.replace(definition, format=store_format)
