"""Computes how puts change the versions of one key. Pure.

A version is valid from its put until just before the next put. The newest value is the key's latest
version; a replaced version is a row of history, from its own time to the next put's time. A
tombstone is not a version: it leaves a mark, a row of history from and to its own time, which says
that the value before it ended there. So the rows depend on the puts, not on their order.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

MARK = b""  # The value of a mark; no version begins and ends at the same time.


class Put(NamedTuple):
    """A value from a time on; None: a tombstone."""

    valid_from: int
    value: bytes | None


class Replaced(NamedTuple):
    """A row of history; with equal times, the mark of a tombstone."""

    valid_from: int
    valid_to: int
    value: bytes


class Write(NamedTuple):
    """A row of history to set; a value of None deletes it. Later writes win."""

    valid_from: int
    valid_to: int
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Change:
    """The rows to write for one key. `latest` is set, or deleted if it has no value."""

    history: list[Write]
    latest: Put | None = None


_Waiting = deque[Put]


def change_of(
    puts: Mapping[int, bytes | None], latest: Put | None, history: Iterable[Replaced]
) -> Change:
    """The change that puts, by their times, make. The same puts again change nothing.

    `latest` is the key's latest value, or None. `history` has the key's rows that end at the first
    put or later, in order; it is read only as far as there are puts, and not at all if all puts
    come after the latest value.
    """
    if len(puts) == 1 and latest is not None:
        # The usual case: one newer value.
        ((time, value),) = puts.items()
        if value is not None and latest.valid_from < time:
            return Change([Write(latest.valid_from, time, latest.value)], Put(time, value))
    waiting = deque(Put(time, puts[time]) for time in sorted(puts))
    writes: list[Write] = []
    if latest is None or waiting[0].valid_from < latest.valid_from:
        writes += _among(waiting, history)
        if latest is not None:
            writes += _chain(_taken(waiting, latest.valid_from), latest.valid_from)
    if not waiting:
        return Change(writes)
    newest = waiting.pop()
    before = [*waiting]
    if latest is not None and latest.valid_from < (before or [newest])[0].valid_from:
        before.insert(0, latest)
    writes += _chain(before, newest.valid_from)
    if newest.value is not None:
        return Change(writes, newest)
    return Change([*writes, _mark(newest.valid_from)], newest if latest is not None else None)


def _among(waiting: _Waiting, history: Iterable[Replaced]) -> list[Write]:
    """The writes of the puts before the end of the last row; removes these puts from `waiting`."""
    writes: list[Write] = []
    for row in history:
        if not waiting:
            break
        writes += _chain(_taken(waiting, row.valid_from), row.valid_from)
        if row.valid_from == row.valid_to:
            is_replaced = bool(waiting) and waiting[0].valid_from == row.valid_from
            if is_replaced and waiting[0].value is not None:
                writes.append(Write(row.valid_from, row.valid_to, None))
        elif inside := _taken(waiting, row.valid_to):
            writes.append(Write(row.valid_from, row.valid_to, None))
            if row.valid_from < inside[0].valid_from:
                inside.insert(0, Put(row.valid_from, row.value))
            writes += _chain(inside, row.valid_to)
    return writes


def _taken(waiting: _Waiting, before: int) -> list[Put]:
    taken = []
    while waiting and waiting[0].valid_from < before:
        taken.append(waiting.popleft())
    return taken


def _chain(puts: Sequence[Put], end: int) -> list[Write]:
    """The rows of consecutive puts, the last of which ends at `end`."""
    ends = [following.valid_from for _, following in pairwise(puts)]
    return [
        _mark(put.valid_from) if put.value is None else Write(put.valid_from, valid_to, put.value)
        for put, valid_to in zip(puts, [*ends, end], strict=False)
    ]


def _mark(time: int) -> Write:
    return Write(time, time, MARK)
