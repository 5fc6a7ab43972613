"""How the rows of a commit become the rows of a store: in slices, so that no reader waits long.

rocksdict holds the interpreter's lock while it writes: the size of one write is what every reader
may have to wait. So rows are written in slices of a bounded number of rows and bytes; readers stay
on the state before the batch until the last one.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from qss_client.chunks import Rows, read_rows
from qss_core.formats import Format, RowEncoder, encoder_of
from qss_core.headers import Headers

SLICE_ROWS_MAX = 500
SLICE_BYTES_MAX = 1024 * 1024


@dataclass(frozen=True, slots=True)
class StoreRows:
    """Rows as the data family keeps them; None deletes, later rows win over earlier ones."""

    keys: list[bytes]
    values: list[bytes | None]


def store_slices(
    payloads: Iterable[bytes], store_format: Format, default_timestamp_ms: int
) -> Iterator[StoreRows]:
    """The rows of all payloads in commit order, in slices.

    Payloads are read one after the other, each sorted by key: memory holds one at a time.
    """
    encode = encoder_of(store_format)
    for payload in payloads:
        for rows in read_rows(payload, SLICE_ROWS_MAX):
            yield from _bounded(rows.keys, _encoded(rows, encode, default_timestamp_ms))


def _encoded(rows: Rows, encode: RowEncoder, default_timestamp_ms: int) -> list[bytes | None]:
    count = len(rows.keys)
    timestamps = rows.timestamps or [None] * count
    headers: list[Headers] = rows.headers or [()] * count
    return [
        None
        if value is None
        else encode(value, default_timestamp_ms if timestamp is None else timestamp, header)
        for value, timestamp, header in zip(rows.values, timestamps, headers, strict=True)
    ]


def _bounded(keys: list[bytes], values: list[bytes | None]) -> Iterator[StoreRows]:
    """Splits a slice whose rows are large."""
    start = size = 0
    for index, (key, value) in enumerate(zip(keys, values, strict=True)):
        size += len(key) + len(value or b"")
        if size > SLICE_BYTES_MAX and index > start:
            yield StoreRows(keys[start:index], values[start:index])
            start, size = index, len(key) + len(value or b"")
    if start < len(keys):
        yield StoreRows(keys[start:], values[start:])
