"""A digest of some rows of one state, by which replicas find out whether they have the same rows.

Keys and values count. Timestamps and headers do not: a replica that moved rows to a format without
them, and back, has lost them, and another one that was slower has them. Each replica moves rows,
drops expired ones and makes index rows on its own: only rows that readers see count.
"""

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec

from qss_core.errors import MalformedBytesError
from qss_core.formats.values import Format, converter_of
from qss_store.storage.engine import FamilyView
from qss_store.storage.stretches import stretches_of
from qss_store.storage.views.read_view import ReadView
from qss_store.storage.views.versioned import VersionedView

ROWS_MAX = 1000  # As many as a scan reads in one turn of the event loop.
_BYTES_MAX = 256 * 1024  # Or one row more.
_DIGEST_BYTES = 16


class RowsDigest(NamedTuple):
    """The digest of some rows; `last_key` is None where no rows come after them."""

    digest: bytes
    last_key: bytes | None
    rows: int
    size: int


def parts_of(view: ReadView) -> tuple[FamilyView, ...]:
    """The parts whose rows are in one order of keys: of a Versioned store also the history."""
    rows = view.snapshot
    return (rows.latest, rows.history) if isinstance(rows, VersionedView) else (rows,)


def digest_next(view: ReadView, part: int, after: bytes | None) -> RowsDigest:
    """The digest of the rows of a part behind a key (None: the first ones), as many as may be."""
    keys, rows, is_over = _rows(parts_of(view)[part], after, None, ROWS_MAX, _BYTES_MAX)
    size = sum(map(len, keys)) + sum(map(len, rows))
    return RowsDigest(_digest(view, keys, rows), None if is_over else keys[-1], len(keys), size)


def digest_between(
    view: ReadView, part: int, after: bytes | None, last_key: bytes | None, count: int
) -> bytes:
    """The digest of the rows of a part behind a key up to another one (None: to the end).

    Where there are more than `count` rows, the digest is another one than that of `count` rows.
    """
    upper = None if last_key is None else last_key + b"\x00"
    keys, rows, _ = _rows(parts_of(view)[part], after, upper, count + 1, None)
    return _digest(view, keys, rows)


def _rows(
    view: FamilyView,
    after: bytes | None,
    upper: bytes | None,
    rows_max: int,
    bytes_max: int | None,
) -> tuple[list[bytes], list[bytes], bool]:
    """Keys, rows, and whether these are all."""
    keys: list[bytes] = []
    rows: list[bytes] = []
    size = 0
    lower = None if after is None else after + b"\x00"
    for some in stretches_of(view.scan(lower=lower, upper=upper)):
        keys += some.keys
        rows += some.rows
        size += some.size
        if len(keys) >= rows_max or (bytes_max is not None and size >= bytes_max):
            return keys[:rows_max], rows[:rows_max], False
    return keys, rows, True


def _digest(view: ReadView, keys: Sequence[bytes], rows: Sequence[bytes]) -> bytes:
    values = rows
    if view.format is not Format.Plain:
        convert = converter_of(view.format, Format.Plain)
        # Malformed rows, as they are, have another digest than those of a whole replica.
        with suppress(MalformedBytesError):
            values = [*map(convert, rows)]
    data = msgspec.msgpack.encode((keys, values))
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES).digest()
