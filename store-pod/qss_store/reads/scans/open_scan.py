"""Opens a scan of one replica's rows, for any type of store."""

from typing import Protocol

from qss_core.model import Sequence
from qss_store.reads.encode.json import ScanEncoder
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
    """A scan of the rows of one state, which it holds open until `close`."""

    last_key: bytes | None  # A cursor continues after this key.
    sequence: Sequence

    @property
    def is_over(self) -> bool:
        """Whether all rows were taken."""

    @property
    def told(self) -> str:
        """The numbers of rows that were scanned and returned, as text."""

    def take(self, rows_max: int) -> Chunk:
        """The next rows, at most `rows_max`.

        The result may be empty before the end: a timed scan stops after LOOKED_AT_MAX rows that the
        query does not want.
        """

    def close(self) -> None:
        """Releases the state; a second call is no error."""


def open_scan(
    reading: Reading, plan: RowsPlan, start: Piece, encoder: ScanEncoder, metrics: Metrics
) -> RowScan:
    """Opens the iterator after `start`.

    Call it without an await after the reading was made: a commit closes the reading's view.
    """
    if isinstance(plan, IndexPlan):
        return IndexScan(reading, plan, start, encoder, metrics)
    if isinstance(plan, ScanPlan):
        return KeyScan(reading, plan, start, encoder, metrics)
    return TimedScan(reading, plan, start, encoder, metrics)
