"""Batches that a partition lacks, and commits with a sequence that was used before."""

from typing import Any

import msgspec
import pytest

from qss_core.errors import SequenceTakenError
from qss_core.model import Epoch, Offset, Sequence, WriterEpoch
from qss_core.wire.losses import BatchesHeld, DataLoss, LastBatch
from qss_core.wire.messages import PartitionCommit
from qss_store.transactions.commands import DeleteWriter, OpenWriter
from qss_store.transactions.coordinator import Coordinator
from qss_store.transactions.losses import LOSSES_MAX, told_batches, with_loss
from qss_store.transactions.participant import Participant
from qss_store.transactions.writers import replaced


def commit(sequence: int, **members: Any) -> PartitionCommit:
    told = {"writer": "job", "generation": 1, "batch": sequence, "replace": False, **members}
    return PartitionCommit(
        sequence=Sequence(sequence),
        writer_epoch=WriterEpoch(1),
        chunks=(),
        position={},
        wall_time_ms=1_000,
        **told,
    )


def applied(participant: Participant, one: PartitionCommit) -> None:
    assert participant.apply_commit(Offset(one.sequence), one) is not None


def held(sequence: int) -> BatchesHeld:
    last = LastBatch(
        writer="job",
        generation=1,
        batch=sequence,
        sequence=Sequence(sequence),
        one_off=False,
        writer_epoch=WriterEpoch(1),
    )
    position = {"flights": {"0": sequence}}
    return BatchesHeld(
        sequence=Sequence(sequence),
        completed=Sequence(sequence),
        decided=Sequence(sequence),
        position=position,
        last=(last,),
    )


@pytest.mark.parametrize("other", [{"writer": "other"}, {"generation": 2}, {"batch": 7}])
def test_another_batch_at_the_last_applied_sequence_is_refused(other: dict[str, Any]) -> None:
    participant = Participant()
    applied(participant, commit(1))
    assert not participant.check_commit(commit(1)), "a repeat is told that it was applied"
    with pytest.raises(SequenceTakenError, match="sequence 1 is another batch here"):
        participant.check_commit(commit(1, **other))


def test_an_accepted_loss_moves_the_sequence_and_is_told_until_all_rows_are_replaced() -> None:
    participant = Participant()
    applied(participant, commit(1))
    participant.apply_loss(Epoch(3), held(5))
    loss = DataLoss(first=Sequence(2), last=Sequence(5), epoch=Epoch(3))
    assert (participant.sequence, participant.losses) == (5, (loss,))
    assert participant.position.to_json() == {"flights": {"0": 5}}
    assert not participant.check_commit(commit(5)), "the last batch is known as applied"
    applied(participant, commit(6))
    assert list(participant.losses) == [loss]
    applied(participant, commit(7, replace=True))
    assert not participant.losses


def test_a_loss_that_is_none_changes_nothing() -> None:
    participant = Participant()
    applied(participant, commit(1))
    participant.apply_loss(Epoch(3), held(1))
    assert (participant.sequence, participant.losses) == (1, ())


def test_losses_are_bounded_and_the_oldest_are_told_as_one() -> None:
    losses: tuple[DataLoss, ...] = ()
    for number in range(0, 4 * LOSSES_MAX, 2):
        one = Sequence(number + 1)
        losses = with_loss(losses, DataLoss(first=one, last=one, epoch=Epoch(number + 1)))
    assert len(losses) == LOSSES_MAX
    assert losses[0].first == 1
    assert losses[-1].last == 4 * LOSSES_MAX - 1


def test_a_writer_that_is_known_to_be_further_stays_as_it_is() -> None:
    """A salvaged partition 0 may hold a decision that other partitions have not applied."""
    coordinator = Coordinator()
    for name in ("job", "deleted"):
        entry = OpenWriter(
            writer=name, query_id="q", run_id="r", open_id=name, take_over=False, one_off=False
        )
        coordinator.apply_open(Epoch(1), 0, entry)
    decided = replaced(coordinator.writer("job"), last_batch=7)
    coordinator.writers["job"] = decided
    gone = coordinator.writer("deleted")
    coordinator.apply_delete(DeleteWriter(writer="deleted", writer_epoch=gone.writer_epoch))
    told = held(6)
    also = msgspec.structs.replace(told.last[0], writer="deleted")
    coordinator.apply_loss(Epoch(1), msgspec.structs.replace(told, last=(*told.last, also)))
    assert list(coordinator.writers) == ["job"]
    assert coordinator.writer("job") == replaced(decided, closed=True, ended_by_loss_in=Epoch(1))
    assert coordinator.last_epoch > decided.writer_epoch + 1000


def test_no_decision_is_earlier_than_a_batch_that_another_partition_knows() -> None:
    """Partition 0 has lost its decisions, and the wall clock was set back."""
    participant = Participant()
    applied(participant, commit(1))
    decided_ms = commit(1).wall_time_ms
    told = msgspec.structs.replace(held(1), last=told_batches(participant.last))
    coordinator = Coordinator()
    rows = dict(coordinator.apply_loss(Epoch(2), told))
    for one in (coordinator, Coordinator.load({k: v for k, v in rows.items() if v is not None})):
        assert one.time_of_next(decided_ms - 1) == decided_ms
        assert one.time_of_next(decided_ms + 1) == decided_ms + 1
    behind = Participant()
    behind.apply_loss(Epoch(2), told)
    assert told_batches(behind.last) == told.last
