"""Batches that a partition lacks, and how it goes on without them where a person says so. Pure."""

from collections.abc import Iterable

from qss_core.model import Epoch
from qss_core.positions import Position
from qss_core.wire.losses import DataLoss, LastBatch
from qss_core.wire.messages import Decision, PartitionCommit
from qss_store.transactions.batch_positions import batch_topic
from qss_store.transactions.state_rows import AppliedBatch

LOSSES_MAX = 100


def losses_after(
    losses: tuple[DataLoss, ...], commit: PartitionCommit, epoch: Epoch, *, is_whole: bool
) -> tuple[DataLoss, ...]:
    """What a partition lacks after a commit; one that is not whole lacks chunks.

    A person has accepted that in `epoch`.

    A batch that replaces all rows makes the partition whole.
    """
    if commit.replace:
        losses = ()
    if is_whole:
        return losses
    return with_loss(losses, DataLoss(first=commit.sequence, last=commit.sequence, epoch=epoch))


def with_loss(losses: tuple[DataLoss, ...], loss: DataLoss) -> tuple[DataLoss, ...]:
    """With another loss; the oldest of too many are told as one."""
    is_next = losses and losses[-1].epoch == loss.epoch and losses[-1].last + 1 == loss.first
    if is_next and loss.last >= loss.first:
        joined = DataLoss(first=losses[-1].first, last=loss.last, epoch=loss.epoch)
        return (*losses[:-1], joined)
    if len(losses) < LOSSES_MAX:
        return (*losses, loss)
    oldest = DataLoss(first=losses[0].first, last=losses[1].last, epoch=losses[1].epoch)
    return (oldest, *losses[2:], loss)


def applied_batches(last: Iterable[LastBatch]) -> dict[str, AppliedBatch]:
    """The last batch of each writer, as a participant keeps it."""
    return {
        one.writer: AppliedBatch(
            generation=one.generation,
            batch=one.batch,
            sequence=one.sequence,
            one_off=one.one_off,
            writer_epoch=one.writer_epoch,
            wall_time_ms=one.wall_time_ms,
        )
        for one in last
    }


def is_batch(told: LastBatch, commit: PartitionCommit) -> bool:
    """Whether a commit is of the batch that was told of."""
    return (told.sequence, told.writer, told.generation, told.batch) == (
        commit.sequence,
        commit.writer,
        commit.generation,
        commit.batch,
    )


def told_decision(decision: Decision) -> LastBatch:
    """The batch of a decision, as messages tell it."""
    return LastBatch(
        writer=decision.writer,
        generation=decision.generation,
        batch=decision.batch,
        sequence=decision.sequence,
        one_off=decision.one_off,
        writer_epoch=decision.writer_epoch,
        wall_time_ms=decision.wall_time_ms,
    )


def position_before(position: Position, decision: Decision) -> Position:
    """A position with nothing of a batch: not beyond that of the batches before it.

    What its writer had read before is not known any more, so it is left out.
    """
    read = Position.from_json(decision.position)
    own = (batch_topic(decision.writer), decision.generation)
    return position.without({*read.components, own})


def told_batches(last: dict[str, AppliedBatch]) -> tuple[LastBatch, ...]:
    """The same, as messages tell it."""
    return tuple(
        LastBatch(
            writer=writer,
            generation=one.generation,
            batch=one.batch,
            sequence=one.sequence,
            one_off=one.one_off,
            writer_epoch=one.writer_epoch,
            wall_time_ms=one.wall_time_ms,
        )
        for writer, one in sorted(last.items())
    )
