"""Reads rows of one local partition as one JSON document, for the fast path."""

from qss_core.model import PartitionId
from qss_store.http.query.streams import scan_document
from qss_store.reads.context import ReadContext
from qss_store.reads.encode.json import JsonRows
from qss_store.reads.plans.dispatch import RowsPlan
from qss_store.reads.request import ReadRequest
from qss_store.reads.routing.admission import read
from qss_store.reads.scans.cursors import Piece, encode_cursor
from qss_store.reads.scans.open_scan import open_scan
from qss_store.reads.scans.replica_reads import SCAN_ROWS_MAX


def rows_at_once(
    reader: ReadContext, request: ReadRequest[RowsPlan], partition: PartitionId
) -> bytes | None:
    """The document that a scan of the partition answers, from its first row on.

    None if the rows do not fit in a chunk, or the answer has more than rows and their state. Raises
    StoreError if this pod's replica may not answer now.
    """
    codec, plan, limit = request.codec, request.plan, request.limit
    rows_max = reader.settings.rows_default if limit is None else limit
    fits = 0 < rows_max <= min(SCAN_ROWS_MAX, reader.settings.rows_per_answer_max)
    if not fits or request.options.execution_info or request.cursor is not None:
        return None
    start, encoder, metrics = Piece(partition), JsonRows(codec, plan), reader.pod.metrics
    reading, scan = read(
        reader.pod,
        partition,
        request,
        lambda state: open_scan(state, plan, start, encoder, metrics),
    )
    try:
        chunk = scan.take(rows_max)
        is_over = scan.is_over
    finally:
        scan.close()
    if not is_over and chunk.row_count < rows_max:
        return None
    left = () if is_over else (Piece(partition, scan.last_key, scan.sequence),)
    answer = b'"%d":{"end":%b,%b' % (
        partition,
        b"true" if is_over else b"false",
        bytes(reader.answer_json(reading))[1:],
    )
    rows = [chunk.data] if chunk.row_count else []
    return b"".join(scan_document(rows, b"{%b}" % answer, encode_cursor(left, plan, codec)))
