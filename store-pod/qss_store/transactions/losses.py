"""Computes the state of a partition whose lost batches a person accepted. Pure."""

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
    """The losses of a partition after a commit.

    A commit that is not whole lacks chunks of this partition; a person accepted that loss in
    `epoch`. A commit that replaces all rows ends all earlier losses.
    """
    if commit.replace:
        losses = ()
    if is_whole:
        return losses
    return with_loss(losses, DataLoss(first=commit.sequence, last=commit.sequence, epoch=epoch))


def with_loss(losses: tuple[DataLoss, ...], loss: DataLoss) -> tuple[DataLoss, ...]:
    """Adds a loss: joined to the last loss where it follows directly in the same epoch.

    Beyond LOSSES_MAX the two oldest losses become one.
    """
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
    """Whether a commit is of the batch in `told`, which another partition reported."""
    return (told.sequence, told.writer, told.generation, told.batch) == (
        commit.sequence,
        commit.writer,
        commit.generation,
        commit.batch,
    )


def told_decision(decision: Decision) -> LastBatch:
    """The batch of a decision, as a LastBatch message."""
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
    """Removes from a position the components that this batch set.

    The result claims no more than the earlier batches had read. The offsets that the writer's
    earlier batches had set are unknown, so these components are absent.
    """
    read = Position.from_json(decision.position)
    own = (batch_topic(decision.writer), decision.generation)
    return position.without({*read.components, own})


def told_batches(last: dict[str, AppliedBatch]) -> tuple[LastBatch, ...]:
    """The last batch of each writer, as LastBatch messages."""
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
