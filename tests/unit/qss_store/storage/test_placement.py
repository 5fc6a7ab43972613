"""The families of a commit's rows, and the families that a stream time needs."""

import dataclasses
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qss_core.formats.timed_keys import (
    SEQUENCE_MAX,
    WindowKey,
    decode_version_key,
    decode_window_key,
    encode_window_key,
)
from qss_core.model import StoreDefinition, StoreType
from qss_store.storage.family_names import ColumnFamilies
from qss_store.storage.placement.placed_rows import Placed, RowPlacer
from qss_store.storage.placement.row_families import row_placer_of
from qss_store.transactions.commit_plan import CommitPlan
from qss_testing.memory_engine import MemoryEngine
from qss_testing.pods.stores import make_definition

MINUTE = 60_000
PLAN = CommitPlan(
    payloads=(),
    default_timestamp_ms=0,
    data_generation=0,
    replaces=False,
    stream_time=0,
    stream_time_before=-1,
    puts_before=0,
    changes={},
    records=0,
)


def window_store(**members: Any) -> StoreDefinition:
    given: dict[str, Any] = {"retention_ms": 10 * MINUTE, **members}
    return make_definition(type=StoreType.WINDOW, **given)


def placer(definition: StoreDefinition, **plan: Any) -> RowPlacer:
    families = ColumnFamilies.of(definition, 0)
    return row_placer_of(definition, families, dataclasses.replace(PLAN, **plan), MemoryEngine())


def rows(*starts: int, values: list[bytes | None] | None = None) -> pa.RecordBatch:
    return pa.record_batch(
        {
            "key": pa.array([b"k"] * len(starts), pa.binary()),
            "value": pa.array(values or [b"v"] * len(starts), pa.binary()),
            "window_start": pa.array(starts, pa.int64()),
        }
    )


def keys_of(placed: Placed) -> list[WindowKey]:
    return [decode_window_key(key) for key in placed.rows.column("key").to_pylist()]


def test_rows_of_a_keyvalue_store_go_as_they_are_into_its_one_family() -> None:
    rule = placer(make_definition())
    batch = rows(1, 2)
    placed = rule.place(batch)
    assert placed.rows is batch
    (part,) = rule.split([b"a"], [b"1"], placed.places)
    assert (part.family, part.keys, part.values) == ("rows-Timestamped-0", [b"a"], [b"1"])


def test_rows_are_split_by_segment_and_keep_their_order() -> None:
    rule = placer(window_store(), stream_time=14 * MINUTE)
    starts = (14 * MINUTE, 0, 5 * MINUTE, 1, 14 * MINUTE)
    placed = rule.place(rows(*starts, values=[b"1", b"2", b"3", b"4", b"5"]))
    assert placed.expired == 0
    columns = placed.rows.to_pydict()
    parts = rule.split(columns["key"], columns["value"], placed.places)
    assert [(part.family, part.values) for part in parts] == [
        ("rows-Timestamped-0-0", [b"2", b"4"]),
        ("rows-Timestamped-0-1", [b"3"]),
        ("rows-Timestamped-0-2", [b"1", b"5"]),
    ]
    assert parts[1].keys == [encode_window_key(b"k", 5 * MINUTE)]


@pytest.mark.parametrize(("stream_time", "expired"), [(15 * MINUTE - 1, 0), (15 * MINUTE, 2)])
def test_rows_are_dropped_when_their_segment_is_expired_and_not_before(
    stream_time: int, expired: int
) -> None:
    placed = placer(window_store(), stream_time=stream_time).place(
        rows(0, 5 * MINUTE - 1, 5 * MINUTE)
    )
    assert placed.expired == expired
    assert len(keys_of(placed)) == 3 - expired


def test_duplicates_are_numbered_over_all_rows_of_a_commit() -> None:
    rule = placer(window_store(retain_duplicates=True), puts_before=SEQUENCE_MAX - 2)
    first = rule.place(rows(0, 0, 0, values=[b"v", None, b"v"]))
    second = rule.place(rows(0, values=[None]))
    third = rule.place(rows(7))
    numbers = [key[2] for placed in (first, second, third) for key in keys_of(placed)]
    assert numbers == [SEQUENCE_MAX - 1, SEQUENCE_MAX, 0]


def test_a_row_that_is_dropped_has_its_number_all_the_same() -> None:
    rule = placer(window_store(retain_duplicates=True), stream_time=60 * MINUTE)
    placed = rule.place(rows(0, 60 * MINUTE))
    assert (placed.expired, keys_of(placed)) == (1, [(b"k", 60 * MINUTE, 2)])


@pytest.mark.parametrize(("stream_time", "hidden"), [(10 * MINUTE - 1, 0), (10 * MINUTE, 1)])
def test_rows_of_a_live_segment_that_retention_hides_are_counted(
    stream_time: int, hidden: int
) -> None:
    placed = placer(window_store(), stream_time=stream_time).place(rows(0, 1, 5 * MINUTE))
    assert (placed.expired, placed.hidden, len(keys_of(placed))) == (0, hidden, 3)


@given(st.integers(1, 10**12), st.lists(st.integers(0, 10**13), min_size=1, max_size=50))
def test_a_batch_makes_at_most_four_segments_however_far_its_rows_are_apart(
    retention_ms: int, starts: list[int]
) -> None:
    rule = placer(window_store(retention_ms=retention_ms), stream_time=max(starts))
    placed = rule.place(rows(*starts))
    count = placed.rows.num_rows
    parts = rule.split([b""] * count, [None] * count, placed.places)
    assert 1 <= len(parts) <= 4
    assert count + placed.expired == len(starts)


def test_leftovers_are_what_no_state_at_that_stream_time_needs() -> None:
    families = ColumnFamilies.of(window_store(), 2)
    present = {
        "meta",
        "rows-Timestamped-1-5",  # Another generation.
        "rows-Timestamped-20-5",
        "rows-Timestamped-2-2",  # Expired.
        "rows-Timestamped-2-3",
        "rows-Timestamped-2-5",
        "rows-Timestamped-2-6",  # Beyond stream time.
    }
    stream_time = 25 * MINUTE
    live = families.live(present, stream_time)
    assert live == {3: "rows-Timestamped-2-3", 5: "rows-Timestamped-2-5"}
    assert families.leftovers(present, stream_time) == [
        "rows-Timestamped-1-5",
        "rows-Timestamped-2-2",
        "rows-Timestamped-2-6",
        "rows-Timestamped-20-5",
    ]
    assert families.live(present, -1) == {}


def test_a_commit_of_versions_that_was_interrupted_keeps_the_segments_ahead() -> None:
    definition = make_definition(type=StoreType.VERSIONED, history_retention_ms=10 * MINUTE)
    families = ColumnFamilies.of(definition, 2)
    ahead = {"rows-Plain-2-6", "rows-Plain-2-9"}
    gone = {"rows-Plain-1", "rows-Plain-1-5", "rows-Plain-2-2", "rows-Plain-20"}
    present = {"meta", "rows-Plain-2", "rows-Plain-2-3", "rows-Plain-2-5", *ahead, *gone}
    stream_time = 25 * MINUTE
    assert set(families.leftovers(present, stream_time)) == ahead | gone
    assert set(families.leftovers(present, stream_time, is_applying=True)) == gone
    windows = ColumnFamilies.of(window_store(format="Plain"), 2)
    assert ahead < set(windows.leftovers(present, stream_time, is_applying=True))


def test_versions_that_expire_with_their_batch_go_into_its_first_live_segment() -> None:
    definition = make_definition(type=StoreType.VERSIONED, history_retention_ms=10 * MINUTE)
    families, engine = ColumnFamilies.of(definition, 0), MemoryEngine()
    families.open(engine)
    plan = dataclasses.replace(PLAN, stream_time_before=3 * MINUTE, stream_time=1000 * MINUTE)
    rule = row_placer_of(definition, families, plan, engine)
    minutes = (1, 4, 7, 100, 990, 999)
    times = np.array([minute * MINUTE for minute in minutes])
    parts = rule.split([b"k"] * len(times), [b"v"] * len(times), times)
    ends = {
        part.family: [decode_version_key(key).valid_to // MINUTE for key in part.keys]
        for part in parts
        if part.family != families.name
    }
    # Segments of five minutes: segment 0 existed before, 198 is the first live one afterwards.
    assert ends == {
        "rows-Plain-0-0": [4],
        "rows-Plain-0-198": [7, 100, 990],
        "rows-Plain-0-199": [999],
    }


def test_a_keyvalue_partition_keeps_the_family_of_its_generation_alone() -> None:
    families = ColumnFamilies.of(make_definition(), 1)
    engine = MemoryEngine()
    families.open(engine)
    assert families.name in engine.families()
    present = {*engine.families(), "rows-Timestamped-0", "rows-Timestamped-10"}
    assert families.leftovers(present, -1) == ["rows-Timestamped-0", "rows-Timestamped-10"]


def test_a_generation_knows_what_an_interrupted_attempt_has_left_of_it() -> None:
    present = {"meta", "rows-Timestamped-1-0", "rows-Timestamped-1-7", "rows-Timestamped-10-1"}
    families = ColumnFamilies.of(window_store(), 1)
    assert families.of_generation(present) == ["rows-Timestamped-1-0", "rows-Timestamped-1-7"]
    families.open(engine := MemoryEngine())
    assert not [name for name in engine.families() if name.startswith("rows")]
    one = ColumnFamilies.of(make_definition(), 1)
    assert one.of_generation({"rows-Timestamped-1", "rows-Timestamped-10"}) == [one.name]


def test_the_count_is_that_of_all_live_segments() -> None:
    engine = MemoryEngine()
    families = ColumnFamilies.of(window_store(), 0)
    for segment in (0, 3, 4):
        name = families.of_segment(segment)
        engine.create_family(name)
        batch = engine.batch()
        batch.put(name, bytes([segment]), b"")
        engine.write(batch)
    assert families.approximate_count(engine, 24 * MINUTE) == 2
