"""Follows the windows, sessions or versions of a key: which rows a further look has changed.

A look has the newest rows of the key, newest first. Where it does not have all of them, a row that
is missing in it may just be older: it counts as gone, or as new, only where the looks prove it.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from qss_client.reads.requests import ReadOptions
from qss_client.reads.responses import Row, SessionRow, VersionRow, WindowRow
from qss_client.store import Store
from qss_core.model import StoreType

ROWS_MAX = 100
TimedRow = WindowRow | SessionRow | VersionRow
Identity = tuple[int, ...]  # Tells the rows of a key apart.


@dataclass(frozen=True, slots=True)
class Look:
    """The newest rows of a key, newest first; `is_whole`: there are no others."""

    rows: Mapping[Identity, TimedRow] = field(default_factory=dict)
    is_whole: bool = True

    @classmethod
    def of(cls, rows: Iterable[TimedRow]) -> "Look":
        """The first ROWS_MAX of the rows."""
        left = iter(rows)
        found = {identity_of(row): row for row in islice(left, ROWS_MAX)}
        return cls(found, is_whole=next(left, None) is None)


@dataclass(frozen=True, slots=True)
class Change:
    """A row that is new or another, or that is gone; without a row the key has none."""

    row: Row | TimedRow | None
    is_gone: bool = False


def identity_of(row: TimedRow) -> Identity:
    match row:
        case WindowRow():
            return row.start, row.sequence or 0
        case SessionRow():
            return row.start, row.end
        case VersionRow():
            return (row.valid_from,)


def changes_between(before: Look, after: Look) -> list[Change]:
    """The rows that are gone, then the rows that are new or changed; the newest row comes last."""
    gone = [
        Change(row, is_gone=True)
        for identity, row in before.rows.items()
        if identity not in after.rows and _would_have(after, before, identity)
    ]
    other = [
        Change(row)
        for identity, row in after.rows.items()
        if (
            before.rows[identity] != row
            if identity in before.rows
            else _would_have(before, after, identity)
        )
    ]
    return [*reversed(gone), *reversed(other)]


def _would_have(look: Look, other: Look, identity: Identity) -> bool:
    """Whether `look` would have this row of `other` if the row had been there then.

    It would if it has all rows, or an older one: a look has the newest rows in their order.
    """
    ids = list(other.rows)
    return look.is_whole or any(one in look.rows for one in ids[ids.index(identity) + 1 :])


def looks_at(client: Store, key: Any, options: ReadOptions) -> Callable[[], Look]:
    """Asks for the newest rows of a key, by the type of the store."""
    kind = client.metadata().definition.type
    asked: dict[str, Any] = {"order": "DESCENDING", "limit": ROWS_MAX + 1, "options": options}
    if kind is StoreType.WINDOW:
        return lambda: Look.of(client.windows(key, **asked))
    if kind is StoreType.SESSION:
        return lambda: Look.of(client.sessions(key, **asked))
    assert kind is StoreType.VERSIONED, f"a store of type {kind} has one row of a key"
    return lambda: Look.of(client.versions(key, **asked))
