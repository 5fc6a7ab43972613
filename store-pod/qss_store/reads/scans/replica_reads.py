"""Reads one local replica's state without awaits; callers limit how long they hold the loop."""

from typing import NamedTuple

from qss_core.errors import MalformedBytesError, StoreError, unreadable
from qss_core.formats.values import RowSplitter
from qss_core.model import Sequence
from qss_store.reads.codec import RowWriter
from qss_store.reads.encode.json import StoredRowEncoder
from qss_store.reads.plans.keys import OnePlan, PointPlan, ScanPlan
from qss_store.reads.routing.admission import Reading
from qss_store.reads.scans.cursors import Piece, bounds_after
from qss_store.reads.scans.read_ahead import ReadAhead
from qss_store.reads.scans.version_lookup import find_version, versions_in
from qss_store.runtime.metrics import Metrics
from qss_store.storage.stretches import stretches_of

CHUNK_ROWS_MAX = 500
CHUNK_BYTES_MAX = 256 * 1024
SCAN_ROWS_MAX = 1000  # Many rows are encoded at once, so a chunk takes about as long.


class Chunk(NamedTuple):
    """Encoded rows of a scan."""

    row_count: int
    data: bytes


NO_ROWS = Chunk(0, b"")


def read_point(reading: Reading, plan: OnePlan, write: RowWriter) -> bytes | None:
    """The key's row as JSON; None if the key is absent."""
    try:
        if isinstance(plan, PointPlan):
            row = reading.view.rows.get(plan.key)
            return None if row is None else write(plan.key, row)
        found = find_version(versions_in(reading), plan.key, plan.as_of)
        return None if found is None else write(*found)
    except MalformedBytesError as error:
        raise unreadable(error) from error


def read_bytes(reading: Reading, plan: OnePlan, split: RowSplitter) -> bytes | None:
    """The stored value of the key's row; None if the key is absent."""
    try:
        if isinstance(plan, PointPlan):
            row = reading.view.rows.get(plan.key)
            return None if row is None else split(row)[2]
        found = find_version(versions_in(reading), plan.key, plan.as_of)
        return None if found is None else found[1]
    except MalformedBytesError as error:
        raise unreadable(error) from error


def estimate_count(reading: Reading) -> int:
    """The approximate number of keys."""
    return reading.replica.views.approximate_count()


class FewRows(NamedTuple):
    """The first rows of a scan, which are not encoded yet; `is_over`: there are no more."""

    keys: list[bytes]
    rows: list[bytes]
    is_over: bool
    last_key: bytes | None  # A cursor continues after this key.
    size: int = 0  # Bytes of the keys and rows.


def read_few(
    reading: Reading, plan: ScanPlan, start: Piece, rows_max: int, bytes_max: int
) -> FewRows | None:
    """The rows that a KeyScan takes first, up to `rows_max`; None if they exceed `bytes_max`."""
    lower, upper = bounds_after(start.last_key, plan.lower, plan.upper, reverse=plan.reverse)
    keys: list[bytes] = []
    rows: list[bytes] = []
    size = 0
    found = reading.view.rows.scan(lower=lower, upper=upper, reverse=plan.reverse)
    for some in stretches_of(found, CHUNK_BYTES_MAX):
        keys += some.keys
        rows += some.rows
        size += some.size
        if len(keys) > rows_max:
            del keys[rows_max:], rows[rows_max:]
            size = sum(map(len, keys)) + sum(map(len, rows))
            return None if size >= bytes_max else FewRows(keys, rows, False, keys[-1], size)  # noqa: FBT003
        if size >= bytes_max:
            return None
    return FewRows(keys, rows, True, start.last_key, size)  # noqa: FBT003


class KeyScan:
    """Scans one replica's state; it holds the state until `close`."""

    def __init__(
        self,
        reading: Reading,
        plan: ScanPlan,
        start: Piece,
        encoder: StoredRowEncoder,
        metrics: Metrics,
    ) -> None:
        """Opens the iterator after `start`; call it without an await after the reading."""
        lower, upper = bounds_after(start.last_key, plan.lower, plan.upper, reverse=plan.reverse)
        self._encoder = encoder
        self.last_key = start.last_key
        self.sequence: Sequence = reading.view.sequence
        self.rows_read = 0
        rows = reading.view.rows.scan(lower=lower, upper=upper, reverse=plan.reverse)
        # It reads one row ahead, so that a scan that stops at a limit knows whether rows are left.
        self._ahead: ReadAhead | None = ReadAhead(rows, CHUNK_BYTES_MAX)
        self._gauge = metrics.open_iterators
        self._gauge.inc()

    @property
    def is_over(self) -> bool:
        return self._ahead is None or self._ahead.is_over

    @property
    def told(self) -> str:
        """The numbers of rows that were scanned and returned, as text."""
        return f"{self.rows_read} rows scanned, {self.rows_read} returned"

    def take(self, rows_max: int) -> Chunk:
        """The next rows, within `rows_max` and a chunk's limits."""
        if self._ahead is None:
            raise StoreError("the scan was closed")
        keys, rows = self._ahead.take(min(rows_max, SCAN_ROWS_MAX))
        if not keys:
            return NO_ROWS
        try:
            data = self._encoder.of_rows(keys, rows)
        except MalformedBytesError as error:
            raise unreadable(error) from error
        # Advance only now: the caller did not get the rows of a chunk that failed.
        self.last_key = keys[-1]
        self.rows_read += len(keys)
        return Chunk(len(keys), data)

    def close(self) -> None:
        """Releases the state; a second call is no error."""
        if self._ahead is not None:
            self._ahead = None
            self._gauge.dec()
