"""How the coordinator's state lies in the meta family."""

from qss_core.model import Offset, Sequence, Wire, WriterEpoch

STATE = b"coordinator"
WRITER = b"writer/"  # By name.
DECISION = b"decision"


class CoordinatorState(Wire, frozen=True, kw_only=True):
    """What is neither of one writer nor the last decision."""

    last_epoch: WriterEpoch
    decided: Sequence
    completed: Sequence
    decision_offset: Offset | None = None
    deleted: tuple[str, ...] = ()
    deleted_generation: int = 0
    lost_time_ms: int = 0
