"""Snapshots over segments, on every engine: rows in order, of one state, without expired rows."""

from collections.abc import Iterator
from itertools import product, zip_longest
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qss_core.formats.segments import Segments, segments_of
from qss_core.formats.timed_keys import TIME_MAX, encode_session_key, encode_window_key
from qss_core.model import StoreDefinition, StoreType
from qss_store.storage.engine import Engine
from qss_store.storage.rocksdb.database import RocksDbEngine
from qss_store.storage.rocksdb.memory_budget import MemoryBudget
from qss_store.storage.views.segmented import SegmentedView
from qss_testing.memory_engine import MemoryEngine
from qss_testing.pods.stores import make_definition

MINUTE = 60_000
RETENTION = 10 * MINUTE
BUDGET = MemoryBudget.of(cache_bytes=8 << 20, write_buffer_bytes=8 << 20)
TIMES = [0, 1, 4 * MINUTE, 5 * MINUTE - 1, 5 * MINUTE, 9 * MINUTE, 10 * MINUTE, 12 * MINUTE]
KEYS = [b"", b"a", b"a\x00", b"b", b"b\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01", b"\xff"]
ROW_KEYS = sorted(encode_window_key(key, time) for key, time in product(KEYS, TIMES))


def definition(store_type: StoreType = StoreType.WINDOW) -> StoreDefinition:
    return make_definition(type=store_type, retention_ms=RETENTION)


def rules(store_type: StoreType = StoreType.WINDOW) -> Segments:
    segments = segments_of(definition(store_type))
    assert segments is not None
    return segments


SEGMENTS = rules()


@pytest.fixture(params=["memory", "rocksdb"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    made = MemoryEngine() if request.param == "memory" else RocksDbEngine(tmp_path / "db", BUDGET)
    yield made
    made.close()


def put(engine: Engine, row_keys: list[bytes], value: bytes = b"v") -> None:
    batch = engine.batch()
    for row_key in row_keys:
        family = f"rows-{SEGMENTS.segment_of(SEGMENTS.time_of(row_key))}"
        engine.create_family(family)
        batch.put(family, row_key, value)
    engine.write(batch)


def snapshot_of(engine: Engine, stream_time: int = -1) -> SegmentedView:
    snapshots = {
        int(family[5:]): engine.view(family)
        for family in engine.families()
        if family.startswith("rows-")
    }
    return SegmentedView(SEGMENTS, snapshots, stream_time)


def is_asked_for(row_key: bytes, earliest: int | None, latest: int | None) -> bool:
    time = SEGMENTS.time_of(row_key)
    return (earliest is None or time >= earliest) and (latest is None or time <= latest)


def test_a_store_without_time_has_no_segments() -> None:
    assert segments_of(make_definition()) is None


def test_a_segment_is_half_the_retention_and_a_minute_at_least() -> None:
    assert SEGMENTS.interval_ms == 5 * MINUTE
    short = segments_of(make_definition(type=StoreType.WINDOW, retention_ms=1))
    assert short is not None
    assert short.interval_ms == MINUTE


@given(st.integers(1, 2**62), st.integers(-1, TIME_MAX))
def test_at_most_four_segments_are_live(retention_ms: int, stream_time: int) -> None:
    segments = Segments(retention_ms, slice(-12, -4))
    last = segments.segment_of(max(stream_time, 0))
    assert last - segments.first_live(stream_time) + 1 <= 4


def test_the_time_of_a_session_is_its_end() -> None:
    assert rules(StoreType.SESSION).time_of(encode_session_key(b"a", 1000, 2000)) == 2000


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("stream_time", [-1, 10 * MINUTE, 12 * MINUTE])
@pytest.mark.parametrize("latest", [None, -1, 0, 5 * MINUTE - 1, 9 * MINUTE, TIME_MAX])
@pytest.mark.parametrize("earliest", [None, -1, 1, 5 * MINUTE, 12 * MINUTE, TIME_MAX])
def test_a_scan_has_the_rows_of_its_times_in_key_order(
    engine: Engine, earliest: int | None, latest: int | None, stream_time: int, reverse: bool
) -> None:
    put(engine, ROW_KEYS)
    snapshot = snapshot_of(engine, stream_time)
    bounds: list[bytes | None] = [None, ROW_KEYS[3], ROW_KEYS[-5], b"b"]
    for lower, upper in product(bounds, bounds):
        wanted = [
            row_key
            for row_key in ROW_KEYS
            if is_asked_for(row_key, earliest, latest)
            and SEGMENTS.time_of(row_key) > stream_time - RETENTION
            and (lower is None or row_key >= lower)
            and (upper is None or row_key < upper)
        ]
        rows = snapshot.scan(
            lower=lower, upper=upper, reverse=reverse, earliest=earliest, latest=latest
        )
        assert [key for key, _ in rows] == (wanted[::-1] if reverse else wanted)
    snapshot.close()


def test_a_point_is_hidden_where_a_scan_hides_it(engine: Engine) -> None:
    put(engine, ROW_KEYS)
    snapshot = snapshot_of(engine, 12 * MINUTE)
    seen = {key for key, _ in snapshot.scan()}
    assert 0 < len(seen) < len(ROW_KEYS)
    for row_key in ROW_KEYS:
        assert (snapshot.get(row_key) is not None) == (row_key in seen)
    asked = [*ROW_KEYS[::-1], encode_window_key(b"none", 11 * MINUTE)]
    values = snapshot.get_many(asked)
    assert values == [b"v" if key in seen else None for key in asked]
    snapshot.close()


def test_a_partition_without_segments_is_empty(engine: Engine) -> None:
    snapshot = snapshot_of(engine)
    assert list(snapshot.scan()) == []
    assert snapshot.get(ROW_KEYS[0]) is None
    assert snapshot.get_many(ROW_KEYS[:2]) == [None, None]
    snapshot.pin()
    snapshot.close()


def test_a_pinned_snapshot_sees_neither_new_rows_nor_new_segments(engine: Engine) -> None:
    old, new = ROW_KEYS[::2], ROW_KEYS[1::2]
    put(engine, old, b"old")
    snapshot = snapshot_of(engine)
    snapshot.pin()
    put(engine, ROW_KEYS, b"new")
    put(engine, [encode_window_key(b"a", 60 * MINUTE)], b"new")
    assert list(snapshot.scan()) == [(key, b"old") for key in old]
    assert list(snapshot.scan(reverse=True)) == [(key, b"old") for key in old[::-1]]
    assert snapshot.get_many(old) == [b"old"] * len(old)
    assert [snapshot.get(key) for key in new] == [None] * len(new)
    snapshot.close()


def drop_segments(engine: Engine) -> None:
    for family in engine.families():
        if family.startswith("rows-"):
            engine.drop_family(family)


@pytest.mark.parametrize("flushed", [False, True])
def test_a_pinned_snapshot_goes_on_answering_when_its_segments_are_dropped(
    engine: Engine, flushed: bool
) -> None:
    put(engine, ROW_KEYS)
    if flushed and isinstance(engine, RocksDbEngine):
        engine.flush()
    snapshot = snapshot_of(engine)
    snapshot.pin()
    drop_segments(engine)
    assert [key for key, _ in snapshot.scan()] == ROW_KEYS
    assert snapshot.get(ROW_KEYS[0]) == b"v"
    assert snapshot.get_many(ROW_KEYS) == [b"v"] * len(ROW_KEYS)
    put(engine, ROW_KEYS[:1], b"another family of the same name")
    assert snapshot.get(ROW_KEYS[0]) == b"v"
    assert [value for _, value in snapshot.scan()] == [b"v"] * len(ROW_KEYS)
    snapshot.close()


@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_outlives_its_snapshot_and_its_segments(engine: Engine, reverse: bool) -> None:
    many = sorted(
        encode_window_key(number.to_bytes(2, "big"), TIMES[number % len(TIMES)])
        for number in range(3000)
    )
    put(engine, many)
    if isinstance(engine, RocksDbEngine):
        engine.flush()
    snapshot = snapshot_of(engine)
    rows = snapshot.scan(reverse=reverse)
    first = next(rows)
    drop_segments(engine)
    snapshot.close()
    put(engine, many[:10], b"new")
    assert [key for key, _ in (first, *rows)] == (many[::-1] if reverse else many)


@pytest.mark.parametrize("reverse", [False, True])
def test_scans_of_one_snapshot_are_read_in_turns(engine: Engine, reverse: bool) -> None:
    many = sorted(
        encode_window_key(number.to_bytes(2, "big"), TIMES[number % len(TIMES)])
        for number in range(2000)
    )
    put(engine, many)
    snapshot = snapshot_of(engine)
    pairs = list(
        zip_longest(
            snapshot.scan(reverse=reverse),
            snapshot.scan(reverse=reverse, earliest=4 * MINUTE, latest=9 * MINUTE),
        )
    )
    inner = [key for key in many if 4 * MINUTE <= SEGMENTS.time_of(key) <= 9 * MINUTE]
    assert [one[0] for one, _ in pairs] == (many[::-1] if reverse else many)
    assert [two[0] for _, two in pairs if two] == (inner[::-1] if reverse else inner)
    snapshot.close()


@settings(max_examples=30, deadline=None)
@given(
    rows=st.lists(st.tuples(st.binary(max_size=14), st.integers(0, 30 * MINUTE)), max_size=30),
    stream_time=st.integers(-1, 30 * MINUTE),
    reverse=st.booleans(),
)
def test_keys_of_any_length_come_in_the_order_of_their_bytes(
    rows: list[tuple[bytes, int]], stream_time: int, reverse: bool
) -> None:
    engine = MemoryEngine()
    row_keys = sorted({encode_window_key(key, time) for key, time in rows})
    put(engine, row_keys)
    seen = [key for key, _ in snapshot_of(engine, stream_time).scan(reverse=reverse)]
    wanted = [key for key in row_keys if SEGMENTS.time_of(key) > stream_time - RETENTION]
    assert seen == (wanted[::-1] if reverse else wanted)
