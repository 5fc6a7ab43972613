"""Digests of rows that readers see, where retention hides others that one replica has dropped."""

from collections.abc import Mapping
from types import MappingProxyType

import pytest

from qss_core.formats.segments import segments_of
from qss_core.formats.timed_keys import encode_window_key
from qss_core.formats.values import Format
from qss_core.model import Offset, Sequence, StoreType
from qss_core.positions import Position
from qss_store.storage.views.read_view import ReadView
from qss_store.storage.views.row_digest import digest_between, digest_next
from qss_store.storage.views.segmented import SegmentedView
from qss_testing.memory_engine import MemoryEngine
from qss_testing.pods.stores import make_definition

MINUTE = 60_000
RETENTION = 10 * MINUTE
NOW = RETENTION + 4 * MINUTE  # The first segment has hidden and visible rows: 5 minutes each.
HIDDEN, SHOWN = 3 * MINUTE, 4 * MINUTE + 1


def keys(prefix: str, count: int, time: int) -> list[bytes]:
    return [encode_window_key(f"{prefix}{number:05}".encode(), time) for number in range(count)]


def view_of(rows: list[bytes], values: Mapping[bytes, bytes] = MappingProxyType({})) -> ReadView:
    """A state with the rows in their segments; all but `values` are equal."""
    segments = segments_of(make_definition(type=StoreType.WINDOW, retention_ms=RETENTION))
    assert segments is not None
    engine, batch = MemoryEngine(), MemoryEngine().batch()
    for row in rows:
        family = f"rows-{segments.segment_of(segments.time_of(row))}"
        engine.create_family(family)
        batch.put(family, row, values.get(row, b"v"))
    engine.write(batch)
    snapshots = {
        int(family.removeprefix("rows-")): engine.view(family)
        for family in engine.families()
        if family.startswith("rows-")
    }
    return ReadView.of(
        SegmentedView(segments, snapshots, NOW),
        store_format=Format.Plain,
        applied=Offset(1),
        sequence=Sequence(1),
        position=Position(),
        stream_time=NOW,
    )


def compared(active: ReadView, standby: ReadView) -> list[bool | None]:
    """For each stretch of the active whether the standby has the same rows; None: it cannot say."""
    found: list[bool | None] = []
    after: bytes | None = None
    while True:
        own = digest_next(active, 0, after)
        other = digest_between(standby, 0, after, own.last_key, own.rows)
        found.append(None if other is None else other == own.digest)
        if (after := own.last_key) is None:
            return found


def test_hidden_rows_end_a_stretch_and_count_as_no_rows() -> None:
    """Otherwise one turn of the event loop would look at millions of them."""
    shown = [*keys("a", 10, SHOWN), *keys("m", 1500, SHOWN), *keys("z", 10, SHOWN)]
    full, dropped = view_of([*keys("b", 9000, HIDDEN), *shown]), view_of(shown)
    stretches = compared(full, dropped)
    assert len(stretches) >= 5, "9 000 hidden rows are not looked at in one stretch"
    assert set(stretches) == {True}
    assert set(compared(full, full)) == {True}


def test_a_row_less_is_found_between_hidden_rows() -> None:
    hidden, shown = keys("b", 5000, HIDDEN), keys("b", 100, SHOWN)
    assert False in compared(view_of([*hidden, *shown]), view_of([*hidden, *shown[:-1]]))
    assert False in compared(view_of([*hidden, *shown[1:]]), view_of([*hidden, *shown]))


def test_a_replica_with_too_many_hidden_rows_cannot_say() -> None:
    shown = [*keys("a", 10, SHOWN), *keys("z", 10, SHOWN)]
    full, dropped = view_of([*keys("b", 9000, HIDDEN), *shown]), view_of(shown)
    assert compared(dropped, full) == [None]


def test_a_replica_with_many_bytes_of_hidden_rows_cannot_say() -> None:
    """It would hold up the event loop for as long as it reads them."""
    shown, hidden = [*keys("a", 10, SHOWN), *keys("z", 10, SHOWN)], keys("b", 3000, HIDDEN)
    full, dropped = view_of([*hidden, *shown], dict.fromkeys(hidden, bytes(4096))), view_of(shown)
    assert compared(dropped, full) == [None]
    assert set(compared(full, dropped)) == {True}


@pytest.mark.parametrize("size", [300_000, 8_000_000])
def test_a_large_row_is_compared(size: int) -> None:
    some = [*keys("a", 100, SHOWN), *keys("b", 3, SHOWN), *keys("c", 100, HIDDEN)]
    large = dict.fromkeys(keys("b", 3, SHOWN), bytes(size))
    one, last = view_of(some, large), keys("b", 3, SHOWN)[-1]
    assert set(compared(one, one)) == {True}
    assert False in compared(one, view_of(some, {**large, last: bytes(size - 1)}))
