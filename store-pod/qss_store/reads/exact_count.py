"""Exact counts: scans all visible rows of a partition.

Like every scan it reads one state, in chunks with turns for other requests between them.
"""

import asyncio
from collections.abc import Sequence

from qss_client.clock import Clock
from qss_core.model import StoreType
from qss_store.reads.codec import Codec
from qss_store.reads.encode.json import ScanEncoder
from qss_store.reads.plans.dispatch import RowsPlan
from qss_store.reads.plans.keys import ScanPlan
from qss_store.reads.plans.times import plan_sessions, plan_windows
from qss_store.reads.routing.admission import Reading
from qss_store.reads.routing.scatter import deadline_exceeded
from qss_store.reads.scans.cursors import Piece
from qss_store.reads.scans.open_scan import RowScan, open_scan
from qss_store.runtime.metrics import Metrics

_CHUNK_ROWS_MAX = 1000


class _NoRows(ScanEncoder):
    """Encodes nothing: the rows are only counted."""

    def of_rows(self, row_keys: Sequence[bytes], rows: Sequence[bytes]) -> bytes:  # noqa: ARG002
        return b""

    def of_lines(self, lines: Sequence[bytes]) -> bytes:  # noqa: ARG002
        return b""


def open_count(reading: Reading, codec: Codec, metrics: Metrics) -> RowScan:
    """A scan of all rows for `count_rows`; of versions only the latest ones."""
    start = Piece(reading.partition, None, reading.view.sequence)
    return open_scan(reading, _all_rows(codec), start, _NoRows(), metrics)


async def count_rows(scan: RowScan, clock: Clock, deadline: float) -> tuple[int, str]:
    """The number of rows, and a text with the number of scanned rows.

    Closes the scan. Raises DeadlineExceededError.
    """
    counted = 0
    try:
        while not scan.is_over:
            if clock.monotonic_s() >= deadline:
                raise deadline_exceeded()
            counted += scan.take(_CHUNK_ROWS_MAX).row_count
            await asyncio.sleep(0)  # Other requests take their turn.
        return counted, scan.told
    finally:
        scan.close()


def _all_rows(codec: Codec) -> RowsPlan:
    match codec.type:
        case StoreType.WINDOW:
            return plan_windows({}, codec)
        case StoreType.SESSION:
            return plan_sessions({}, codec)
        case _:
            return ScanPlan(None, None, reverse=False, shape=codec.shape)
