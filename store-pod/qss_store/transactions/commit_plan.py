"""The plan of a commit: the state machine makes it, the replica carries it out."""

from collections.abc import Mapping
from dataclasses import dataclass

from qss_core.model import Offset

RowsByKey = Mapping[bytes, bytes]
Changes = dict[bytes, bytes | None]  # Rows of the meta family; None deletes.


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitPlan:
    """Apply the rows of the entries `payloads` in this order, then `changes` with the last rows.

    Retention drops windows and sessions by `stream_time`, the stream time after the batch, and
    versions by `stream_time_before`. Row numbers continue from `puts_before`. So a commit that is
    applied again after a crash writes the same rows.
    """

    payloads: tuple[Offset, ...]
    default_timestamp_ms: int
    data_generation: int
    replaces: bool
    stream_time: int
    stream_time_before: int
    puts_before: int
    changes: Changes
    records: int
