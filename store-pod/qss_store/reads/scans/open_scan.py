"""A scan of one replica's rows, whatever the type of the store."""

from typing import Protocol

from qss_core.model import Sequence
from qss_store.reads.encode.json import RowEncoder
from qss_store.reads.plans.dispatch import RowsPlan
from qss_store.reads.plans.indexes import IndexPlan
from qss_store.reads.plans.keys import ScanPlan
from qss_store.reads.routing.admission import Reading
from qss_store.reads.scans.cursors import Piece
from qss_store.reads.scans.index_scan import IndexScan
from qss_store.reads.scans.replica_reads import Chunk, KeyScan
from qss_store.reads.scans.timed_scan import TimedScan
from qss_store.runtime.metrics import Metrics


class RowScan(Protocol):
    """Rows of one state; it keeps its own hold on it until `close`."""

    last_key: bytes | None  # A cursor goes on behind it.
    sequence: Sequence

    @property
    def is_over(self) -> bool:
        """Whether all rows were taken."""

    @property
    def told(self) -> str:
        """How many rows were looked at and given, in words."""

    def take(self, rows_max: int) -> Chunk:
        """The next rows; none, also before the end, where the next ones are far off."""

    def close(self) -> None:
        """Lets go of the state; again is no error."""


def open_scan(
    reading: Reading, plan: RowsPlan, start: Piece, encoder: RowEncoder, metrics: Metrics
) -> RowScan:
    """Opens the iterator after `start`, in the loop's turn that took the reading."""
    if isinstance(plan, IndexPlan):
        return IndexScan(reading, plan, start, encoder, metrics)
    if isinstance(plan, ScanPlan):
        return KeyScan(reading, plan, start, encoder, metrics)
    return TimedScan(reading, plan, start, encoder, metrics)
