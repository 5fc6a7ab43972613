"""Reads a few rows of this pod's replicas as one JSON document, for the fast path."""

from collections.abc import Sequence
from functools import partial

from qss_store.http.large_answers import LARGE_BYTES
from qss_store.http.query.streams import scan_document
from qss_store.reads.context import ReadContext
from qss_store.reads.encode.json import JsonRows
from qss_store.reads.plans.keys import ScanPlan
from qss_store.reads.plans.times import TimedPlan
from qss_store.reads.request import ReadRequest
from qss_store.reads.routing.admission import Reading, read
from qss_store.reads.scans.cursors import Piece, encode_cursor
from qss_store.reads.scans.replica_reads import SCAN_ROWS_MAX, FewRows, read_few
from qss_store.reads.scans.timed_scan import TimedScan
from qss_store.runtime.metrics import Metrics

FewRowsPlan = ScanPlan | TimedPlan

_FEW_ROWS = 128  # So few rows take less time than the ordinary way adds, so they wait for no turn.


def rows_at_once(
    reader: ReadContext, request: ReadRequest[FewRowsPlan], pieces: Sequence[Piece]
) -> bytes | None:
    """The document that a scan of the pieces answers.

    None if the rows do not fit in the buffer of a connection, or the answer has more than rows and
    their states. Raises StoreError if a replica of this pod may not answer now.
    """
    plan, limit, settings = request.plan, request.limit, reader.settings
    left = settings.rows_default if limit is None else limit
    fits = 0 < left <= min(SCAN_ROWS_MAX, settings.rows_per_answer_max)
    if not fits or request.options.execution_info or _is_by_time(plan):
        return None
    turns = reader.pod.turns
    at_once = min(left, _FEW_ROWS) if turns.is_spent else left
    turns.begin()
    try:
        return _document(reader, request, pieces, left, at_once)
    finally:
        turns.end()


def _document(
    reader: ReadContext,
    request: ReadRequest[FewRowsPlan],
    pieces: Sequence[Piece],
    left: int,
    at_once: int,
) -> bytes | None:
    """As `rows_at_once`: up to `left` rows are asked for; None if there are more than `at_once`."""
    plan, pod = request.plan, reader.pod
    keys: list[bytes] = []
    rows: list[bytes] = []
    answers: list[bytes] = []
    rest: Sequence[Piece] = ()
    bytes_left = LARGE_BYTES  # An answer with more goes the ordinary way.
    for index, piece in enumerate(pieces):
        produce = partial(
            _first_rows,
            plan=plan,
            start=piece,
            rows_max=left,
            bytes_max=bytes_left,
            metrics=pod.metrics,
        )
        reading, found = read(pod, piece.partition, request, produce, piece.sequence)
        count = 0 if found is None else len(found.keys)
        if found is None or count > at_once or (count < left and not found.is_over):
            return None
        left -= count
        at_once -= count
        bytes_left -= found.size
        keys += found.keys
        rows += found.rows
        members = bytes(reader.answer_json(reading))[1:]
        end = b"true" if found.is_over else b"false"
        answers.append(b'"%d":{"end":%b,%b' % (piece.partition, end, members))
        if not left or not found.is_over:
            sequence = reading.view.sequence
            cut = () if found.is_over else (Piece(piece.partition, found.last_key, sequence),)
            rest = (*cut, *pieces[index + 1 :])
            break
    encoded = [JsonRows(request.codec, plan).of_rows(keys, rows)] if keys else []
    cursor = encode_cursor(rest, plan, request.codec)
    return b"".join(scan_document(encoded, b"{%b}" % b",".join(answers), cursor))


def _first_rows(
    state: Reading,
    plan: FewRowsPlan,
    start: Piece,
    rows_max: int,
    bytes_max: int,
    metrics: Metrics,
) -> FewRows | None:
    """Up to `rows_max` rows; None if they exceed `bytes_max`. All are encoded with one call."""
    if isinstance(plan, ScanPlan):
        return read_few(state, plan, start, rows_max, bytes_max)
    gathered = _Gathered()
    scan = TimedScan(state, plan, start, gathered, metrics)
    try:
        scan.take(rows_max)
        return FewRows(gathered.keys, gathered.rows, scan.is_over, scan.last_key)
    finally:
        scan.close()


class _Gathered:
    """Takes the rows of a scan instead of an encoder."""

    def __init__(self) -> None:
        self.keys: list[bytes] = []
        self.rows: list[bytes] = []

    def of_rows(self, row_keys: Sequence[bytes], rows: Sequence[bytes]) -> bytes:
        self.keys += row_keys
        self.rows += rows
        return b""


def _is_by_time(plan: FewRowsPlan) -> bool:
    """Whether the rows of all partitions are merged."""
    return isinstance(plan, TimedPlan) and plan.by_time
