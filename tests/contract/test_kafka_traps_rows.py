"""The traps of Kafka Streams in rows of two families, one rule for each test."""

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from qss_core.formats.values import Format
from qss_store.storage.engine import Engine
from qss_store.storage.rocksdb.database import RocksDbEngine
from qss_store.storage.rocksdb.memory_budget import MemoryBudget
from qss_store.storage.views.converted import ConvertedView, Older
from qss_store.storage.views.overlaid import NO_ROWS, OverlaidView
from qss_testing.memory_engine import MemoryEngine
from qss_testing.pods.stores import Cluster, Put, commit_rows
from qss_testing.reference.migrations import STEP_ROWS, change_format, only_replica, shown

STORE: dict[str, Any] = {}
NEWER, OLDER = "newer", "older"
STAMP = bytes(8)


@pytest.fixture(params=["memory", "rocksdb"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    budget = MemoryBudget.of(cache_bytes=2**20, write_buffer_bytes=2**20)
    made: Engine = MemoryEngine() if request.param == "memory" else RocksDbEngine(tmp_path, budget)
    for family, value in ((NEWER, STAMP + b"new"), (OLDER, b"old")):
        made.create_family(family)
        batch = made.batch()
        batch.put(family, b"both", value)
        batch.put(family, family.encode(), value)
        made.write(batch)
    yield made
    made.close()


def migrating(engine: Engine) -> ConvertedView:
    older = Older(engine.view(OLDER), Format.Plain, b"")
    return ConvertedView(engine.view(NEWER), [older], Format.Timestamped)


@pytest.mark.parametrize("is_pending", [False, True])
def test_trap_5_a_range_that_is_open_at_one_end_is_right_backward(
    engine: Engine, is_pending: bool
) -> None:
    rows = {b"a": b"1", b"b": b"2", b"c": b"3"}
    family = engine.view(OLDER)
    if is_pending:
        snapshot = OverlaidView(family, NO_ROWS.with_rows({**rows, b"both": None}))
    else:
        batch = engine.batch()
        batch.put_rows(OLDER, [*rows, b"both"], [*rows.values(), None])
        engine.write(batch)
        snapshot = OverlaidView(engine.view(OLDER), NO_ROWS)
    assert [key for key, _ in snapshot.scan(lower=b"b", reverse=True)] == [b"older", b"c", b"b"]
    assert [key for key, _ in snapshot.scan(upper=b"c", reverse=True)] == [b"b", b"a"]


def test_trap_6_a_key_in_two_families_is_one_row_and_the_new_one(engine: Engine) -> None:
    rows = [
        (b"both", STAMP + b"new"),
        (b"newer", STAMP + b"new"),
        (b"older", b"\xff" * 8 + b"old"),
    ]
    assert list(migrating(engine).scan()) == rows
    assert list(migrating(engine).scan(reverse=True)) == rows[::-1]
    assert migrating(engine).get(b"both") == rows[0][1]


def test_trap_7_reading_rows_of_an_older_format_writes_nothing(engine: Engine) -> None:
    snapshot = migrating(engine)
    assert snapshot.get(b"older") == snapshot.get_many([b"older"])[0] == b"\xff" * 8 + b"old"
    assert engine.get(NEWER, b"older") is None
    assert engine.get(OLDER, b"older") == b"old"


async def test_trap_9_all_rows_are_counted_in_the_middle_of_a_migration(
    make: Callable[..., Awaitable[Cluster]],
) -> None:
    cluster = await make(format="Plain")
    replica = only_replica(cluster)
    rows = [Put(b"%04d" % number, b"1", 0) for number in range(3 * STEP_ROWS)]
    await commit_rows(replica, rows, batch=0, position={})
    await change_format(cluster, "Timestamped")
    await replica.format_change.move_rows(STEP_ROWS)
    assert len(list(shown(replica).rows.scan())) == len(rows)
    assert replica.views.approximate_count() == len(rows)
