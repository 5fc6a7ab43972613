"""A digest of some rows of one state, by which replicas find out whether they have the same rows.

Keys and values count. Timestamps and headers do not: a replica that moved rows to a format without
them, and back, has lost them, and another one that was slower has them. Each replica moves rows,
drops expired ones and makes index rows on its own: only rows that readers see count.
"""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec

from qss_core.errors import MalformedBytesError
from qss_core.formats.values import Format, converter_of
from qss_store.storage.engine import FamilyView
from qss_store.storage.stretches import stretches_of
from qss_store.storage.views.read_view import ReadView
from qss_store.storage.views.segmented import SegmentedView
from qss_store.storage.views.versioned import VersionedView

ROWS_MAX = 1000  # As many as a scan reads in one turn of the event loop.
# Rows that are looked at, hidden ones too: by the active, and by a standby, which may have more
# hidden ones. The limits of bytes are reached by the last row.
_LOOKED_MAX, _LOOKED_BETWEEN_MAX = 2000, 8000
_BYTES_MAX, _BYTES_BETWEEN_MAX = 256 * 1024, 2 * 1024 * 1024
_DIGEST_BYTES = 16


class RowsDigest(NamedTuple):
    """The digest of some rows; `last_key` is that of the last one looked at, None at the end."""

    digest: bytes
    last_key: bytes | None
    rows: int
    size: int


def parts_of(view: ReadView) -> tuple[FamilyView, ...]:
    """The parts whose rows are in one order of keys: of a Versioned store also the history."""
    rows = view.rows
    return (rows.latest, rows.history) if isinstance(rows, VersionedView) else (rows,)


def digest_next(view: ReadView, part: int, after: bytes | None) -> RowsDigest:
    """The digest of the rows of a part behind a key (None: the first ones), as many as may be."""
    found = _rows(parts_of(view)[part], after, None, ROWS_MAX, _BYTES_MAX, _LOOKED_MAX)
    digest = _digest(view, found.keys, found.rows)
    return RowsDigest(digest, found.last_key, len(found.keys), found.size)


def digest_between(
    view: ReadView, part: int, after: bytes | None, last_key: bytes | None, count: int
) -> bytes | None:
    """The digest of the rows of a part from behind `after` up to `last_key` (None: to the end).

    `count` rows are expected: more rows give another digest. Returns None where the part has so
    many other rows in between, or so large ones, that reading them takes too long.
    """
    upper = None if last_key is None else last_key + b"\x00"
    limits = count + 1, _BYTES_BETWEEN_MAX, _LOOKED_BETWEEN_MAX
    found = _rows(parts_of(view)[part], after, upper, *limits)
    is_whole = found.last_key in (None, last_key)  # A large row of the active ends its stretch.
    if not is_whole and len(found.keys) <= count:
        return None
    return _digest(view, found.keys, found.rows)


class _Looked(NamedTuple):
    """Rows that readers see; `last_key` is of the last row that was looked at, None at the end."""

    keys: list[bytes]
    rows: list[bytes]
    last_key: bytes | None
    size: int  # The bytes of all rows that were read.


def _rows(
    view: FamilyView,
    after: bytes | None,
    upper: bytes | None,
    rows_max: int,
    bytes_max: int,
    looked_max: int,
) -> _Looked:
    """The next rows; rows that retention hides are looked at, too, and end a stretch like others.

    Where this replica has hidden rows that another one has dropped, the same keys bound both.
    """
    keys: list[bytes] = []
    rows: list[bytes] = []
    size = looked = 0
    for some in stretches_of(_scan(view, after, upper)):
        size += some.size
        looked += len(some.keys)
        for key, row in zip(some.keys, some.rows, strict=True):
            if isinstance(view, SegmentedView) and view.hides(key):
                continue
            keys.append(key)
            rows.append(row)
            if len(keys) == rows_max:
                return _Looked(keys, rows, key, size)
        if looked >= looked_max or size >= bytes_max:
            return _Looked(keys, rows, some.keys[-1], size)
    return _Looked(keys, rows, None, size)


def _scan(
    view: FamilyView, after: bytes | None, upper: bytes | None
) -> Iterator[tuple[bytes, bytes]]:
    lower = None if after is None else after + b"\x00"
    if isinstance(view, SegmentedView):
        return view.scan(lower=lower, upper=upper, exact=False)
    return view.scan(lower=lower, upper=upper)


def _digest(view: ReadView, keys: Sequence[bytes], rows: Sequence[bytes]) -> bytes:
    values = rows
    if view.format is not Format.Plain:
        convert = converter_of(view.format, Format.Plain)
        # Malformed rows, as they are, have another digest than those of a whole replica.
        with suppress(MalformedBytesError):
            values = [*map(convert, rows)]
    data = msgspec.msgpack.encode((keys, values))
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES).digest()
