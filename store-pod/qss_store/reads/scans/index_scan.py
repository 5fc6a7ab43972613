"""Scans one replica's rows by an index: index rows in order, each with the row it names.

A row of the answer is a row of the store with `indexKey` after its key. A row with several keys in
an index comes once for each.
"""

from collections.abc import Iterator

from qss_core.errors import MalformedBytesError, StoreError, unreadable
from qss_core.model import Sequence
from qss_store.reads.codec import make_row_writer
from qss_store.reads.encode.json import ScanEncoder
from qss_store.reads.plans.indexes import IndexPlan
from qss_store.reads.routing.admission import Reading
from qss_store.reads.scans.cursors import Piece, bounds_after
from qss_store.reads.scans.replica_reads import CHUNK_BYTES_MAX, NO_ROWS, Chunk
from qss_store.runtime.metrics import Metrics
from qss_store.storage.views.indexed import IndexedView

_CHUNK_ROWS_MAX = 200  # Each row costs a point look-up.
_MEMBER = b',"indexKey":'


class IndexScan:
    """Scans the rows of one state by index key and key; it holds the state until `close`."""

    def __init__(
        self,
        reading: Reading,
        plan: IndexPlan,
        start: Piece,
        encoder: ScanEncoder,
        metrics: Metrics,
    ) -> None:
        """Opens the iterator after `start`; call it without an await after the reading."""
        view = reading.view.rows
        assert isinstance(view, IndexedView), "the plan was made for a store with indexes"
        lower, upper = bounds_after(start.last_key, plan.lower, plan.upper, reverse=plan.reverse)
        self._index = plan.index
        self._encoder = encoder
        self._write = make_row_writer(plan.codec, plan.shape)
        self._key_json = plan.codec.key.json_bytes
        self._get = view.rows.reader()
        self._rows: Iterator[tuple[bytes, bytes]] = view.index.scan(
            lower=lower, upper=upper, reverse=plan.reverse
        )
        self.last_key = start.last_key
        self.sequence: Sequence = reading.view.sequence
        self._given = 0
        # It reads one row ahead, so that a scan that stops at a limit knows whether rows are left.
        self._ahead = next(self._rows, None)
        self._gauge = metrics.open_iterators
        self._gauge.inc()
        self._is_open = True

    @property
    def is_over(self) -> bool:
        return self._ahead is None

    @property
    def told(self) -> str:
        """The numbers of rows that were scanned and returned, as text."""
        return f"{self._given} index rows scanned, {self._given} returned"

    def take(self, rows_max: int) -> Chunk:
        """The next rows, within `rows_max` and a chunk's limits."""
        row_keys: list[bytes] = []
        taken: list[bytes] = []
        size = 0
        most = min(rows_max, _CHUNK_ROWS_MAX)
        last_key = self.last_key
        try:
            while self._ahead is not None and len(taken) < most and size < CHUNK_BYTES_MAX:
                last_key = self._ahead[0]
                line = self._line(last_key)
                size += len(line)
                row_keys.append(last_key)
                taken.append(line)
                self._ahead = next(self._rows, None)
        except MalformedBytesError as error:
            raise unreadable(error) from error
        # Advance only now: the caller did not get the rows of a chunk that failed.
        self.last_key = last_key
        self._given += len(taken)
        if not taken:
            return NO_ROWS
        return Chunk(len(taken), self._encoder.of_own_lines(row_keys, taken))

    def _line(self, index_row: bytes) -> bytes:
        index_key, key = self._index.parts(index_row)
        row = self._get(key)
        if row is None:
            raise StoreError(  # No damage: another replica has the same index rows.
                f"index {self._index.name} names a row that does not exist: its store type "
                "computes other index keys than before. Raise the type's version, and the indexes "
                "are rebuilt"
            )
        line = self._write(key, row)
        behind = len(b'{"key":') + len(self._key_json(key))
        return b"%b%b%b%b" % (
            line[:behind],
            _MEMBER,
            self._index.serde.json_bytes(index_key),
            line[behind:],
        )

    def close(self) -> None:
        """Releases the state; a second call is no error."""
        if self._is_open:
            self._is_open = False
            self._rows = iter(())
            self._ahead = None
            del self._get
            self._gauge.dec()
