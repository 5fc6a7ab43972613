"""How a commit is applied, as the state machine plans it."""

from collections.abc import Mapping
from dataclasses import dataclass

from qss_core.model import Offset

Rows = Mapping[bytes, bytes]
Changes = dict[bytes, bytes | None]  # Rows of the meta family; None deletes.


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitPlan:
    """How a commit is applied: these entries in this order, then `changes` with the last rows.

    Windows and sessions are judged by `stream_time`, which is that after the batch, versions by the
    one before it; numbers go on from `puts_before`: a commit that is applied again after a crash
    writes the same rows.
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
