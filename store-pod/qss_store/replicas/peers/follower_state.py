"""The state of one other replica of a partition, as its active knows it in one epoch."""

from dataclasses import dataclass

from qss_core.model import Offset
from qss_store.replication.follower import Moment

_NOT_YET = Offset(-1)


@dataclass(slots=True)
class FollowerState:
    """One other replica; `database` is the id of its database, once its hello was taken."""

    database: str | None = None
    has_said_hello: bool = False  # In this epoch.
    is_greeted: bool = False  # Since the last request to its pod that failed.
    lost: str | None = None  # The reason why it has to be made anew.
    needs_copy: bool = False  # This learner lacks entries that the log lacks, or is damaged.
    copy_again_s: float = float("-inf")  # Earlier, no request tells the learner again to copy.
    was_sent_all: bool = False  # The last request had all entries that it may get.
    heard_s: float = float("-inf")  # The last acknowledgement, or the epoch's begin.
    watermark: Offset = _NOT_YET  # The last watermark that was sent.
    answered: Moment | None = None  # The last moment of its clock that it told.
    sent_s: float = float("-inf")
    not_before_s: float = float("-inf")
    refusals: int = 0
    rests_until_s: float = float("-inf")  # Its pod may be about to restart.
    leaves: bool = False  # Its pod was told to stop.
