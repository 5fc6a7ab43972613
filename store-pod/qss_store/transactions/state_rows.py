"""The rows of the meta family that keep the state of a participant and of the coordinator."""

from collections.abc import Mapping

import msgspec

from qss_core.model import Epoch, Offset, Sequence, Wire, WriterEpoch
from qss_core.positions import PositionJson
from qss_core.wire.losses import DataLoss, LastBatch
from qss_core.wire.messages import decode

PARTICIPANT = b"participant"
LAST = b"last/"  # The writer's name follows.
COORDINATOR = b"coordinator"
WRITER = b"writer/"  # The writer's name follows.
DECISION = b"decision"


class AppliedBatch(Wire, frozen=True, kw_only=True):
    """The last applied batch of a writer."""

    generation: int
    batch: int
    sequence: Sequence
    one_off: bool
    writer_epoch: WriterEpoch = WriterEpoch(0)
    wall_time_ms: int = 0  # The wall time of the batch's decision.


class ParticipantState(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """The participant's state apart from the rows of its writers and chunks.

    `forgiven` is of volumes and messages of before standbys: batches up to it may lack chunks.
    """

    sequence: Sequence = Sequence(0)
    position: PositionJson = msgspec.field(default_factory=dict)
    stream_time: int = -1
    data_generation: int = 0
    puts: int = 0
    losses: tuple[DataLoss, ...] = ()
    forgives: LastBatch | None = None
    forgiven: Sequence = Sequence(0)
    accepted_in: Epoch = Epoch(0)


def applied_batches_in(rows: Mapping[bytes, bytes]) -> dict[str, AppliedBatch]:
    """The last batch of each writer, from the meta rows."""
    return {
        key[len(LAST) :].decode(): decode(value, AppliedBatch)
        for key, value in rows.items()
        if key.startswith(LAST)
    }


class CoordinatorState(Wire, frozen=True, kw_only=True):
    """The coordinator's state apart from its writers and the last decision."""

    last_epoch: WriterEpoch
    decided: Sequence
    completed: Sequence
    decision_offset: Offset | None = None
    deleted: tuple[str, ...] = ()
    deleted_generation: int = 0
    lost_time_ms: int = 0
