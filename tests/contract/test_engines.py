"""A suite that every engine passes, and a state machine that compares engines after each step."""

from collections.abc import Callable, Iterator
from itertools import count, zip_longest
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from qss_store.storage.engine import CHANGELOG, FIXED_FAMILIES, META, Engine
from qss_store.storage.rocksdb.database import RocksDbEngine
from qss_store.storage.rocksdb.memory_budget import MemoryBudget
from qss_testing.memory_engine import MemoryEngine

MakeEngine = Callable[[], Engine]
ROWS = "rows"
KEYS = [b"", b"\x00", b"a", b"a\x00", b"ab", b"b", b"\xff", b"\xff\xff"]
BUDGET = MemoryBudget.of(cache_bytes=8 << 20, write_buffer_bytes=8 << 20)


@pytest.fixture(params=["memory", "rocksdb"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    made = MemoryEngine() if request.param == "memory" else RocksDbEngine(tmp_path / "db", BUDGET)
    made.create_family(ROWS)
    yield made
    made.close()


def put(engine: Engine, **rows: str) -> None:
    batch = engine.batch()
    for key, value in rows.items():
        batch.put(ROWS, key.encode(), value.encode())
    engine.write(batch)


def keys(engine: Engine, lower: bytes | None = None, upper: bytes | None = None) -> list[bytes]:
    return [key for key, _ in engine.scan(ROWS, lower=lower, upper=upper)]


def test_a_batch_over_several_families_is_written_whole(engine: Engine) -> None:
    batch = engine.batch()
    batch.put(ROWS, b"a", b"1")
    batch.put(META, b"m", b"2")
    assert engine.get(ROWS, b"a") is None
    engine.write(batch)
    assert (engine.get(ROWS, b"a"), engine.get(META, b"m")) == (b"1", b"2")


def test_writes_of_one_batch_take_effect_in_order(engine: Engine) -> None:
    batch = engine.batch()
    batch.put(ROWS, b"a", b"1")
    batch.delete(ROWS, b"a")
    batch.put_rows(ROWS, [b"b", b"b", b"c", b"c"], [b"1", b"2", b"3", None])
    engine.write(batch)
    assert list(engine.scan(ROWS)) == [(b"b", b"2")]


def test_empty_keys_and_values_are_rows(engine: Engine) -> None:
    batch = engine.batch()
    batch.put(ROWS, b"", b"")
    engine.write(batch)
    assert engine.get(ROWS, b"") == b""


@pytest.mark.parametrize("lower", [None, *KEYS])
@pytest.mark.parametrize("upper", [None, *KEYS])
@pytest.mark.parametrize("flushed", [False, True])
def test_a_scan_has_its_lower_bound_and_not_its_upper_one(
    engine: Engine, lower: bytes | None, upper: bytes | None, flushed: bool
) -> None:
    batch = engine.batch()
    batch.put_rows(ROWS, KEYS, KEYS)
    engine.write(batch)
    if flushed and isinstance(engine, RocksDbEngine):
        engine.flush()
    wanted = [
        key for key in KEYS if (lower is None or key >= lower) and (upper is None or key < upper)
    ]
    snapshot = engine.view(ROWS)
    assert [key for key, _ in snapshot.scan(lower=lower, upper=upper)] == wanted
    backward = snapshot.scan(lower=lower, upper=upper, reverse=True)
    assert [key for key, _ in backward] == wanted[::-1]
    assert keys(engine, lower, upper) == wanted
    snapshot.close()


def test_a_snapshot_does_not_see_later_writes(engine: Engine) -> None:
    put(engine, a="1", b="1")
    snapshot = engine.view(ROWS)
    snapshot.pin()
    put(engine, a="2", c="2")
    assert (snapshot.get(b"a"), snapshot.get(b"c")) == (b"1", None)
    assert list(snapshot.scan()) == [(b"a", b"1"), (b"b", b"1")]
    snapshot.close()


def test_a_scan_outlives_its_snapshot_and_later_writes(engine: Engine) -> None:
    put(engine, a="1", b="1")
    snapshot = engine.view(ROWS)
    rows = snapshot.scan()
    put(engine, b="2", c="2")
    snapshot.close()
    assert list(rows) == [(b"a", b"1"), (b"b", b"1")]


@pytest.mark.parametrize("reverse", [False, True])
def test_scans_of_one_snapshot_are_read_in_turns(engine: Engine, reverse: bool) -> None:
    batch = engine.batch()
    rows = [(number.to_bytes(2, "big"), b"v") for number in range(1000)]
    batch.put_rows(ROWS, [key for key, _ in rows], [value for _, value in rows])
    engine.write(batch)
    snapshot = engine.view(ROWS)
    first = snapshot.scan(reverse=reverse)
    second = snapshot.scan(lower=rows[10][0], upper=rows[900][0], reverse=reverse)
    pairs = list(zip_longest(first, second))
    wanted = rows[::-1] if reverse else rows
    inner = rows[10:900][::-1] if reverse else rows[10:900]
    assert [one for one, _ in pairs] == wanted
    assert [two for _, two in pairs if two] == inner
    snapshot.close()


def test_a_dropped_family_comes_back_empty(engine: Engine) -> None:
    put(engine, a="1")
    engine.drop_family(ROWS)
    assert ROWS not in engine.families()
    engine.create_family(ROWS)
    assert keys(engine) == []


def test_making_a_family_again_keeps_its_rows(engine: Engine) -> None:
    put(engine, a="1")
    engine.create_family(ROWS)
    assert keys(engine) == [b"a"]


def test_the_fixed_families_are_always_there(engine: Engine) -> None:
    assert engine.families() == {*FIXED_FAMILIES, ROWS}


def test_the_count_of_distinct_rows_is_exact_while_nothing_is_overwritten(engine: Engine) -> None:
    put(engine, a="1", b="2", c="3")
    assert engine.approximate_count(ROWS) == 3


def test_a_reopened_database_has_every_family_and_row(tmp_path: Path) -> None:
    engine = RocksDbEngine(tmp_path, BUDGET)
    engine.create_family(ROWS)
    put(engine, a="1")
    engine.sync()
    engine.close()
    again = RocksDbEngine(tmp_path, BUDGET)
    assert again.families() == {*FIXED_FAMILIES, ROWS}
    assert again.get(ROWS, b"a") == b"1"
    again.close()


class EnginesAgree(RuleBasedStateMachine):
    """RocksDB and the engine in memory have equal contents after each step, restarts included."""

    @initialize()
    def open(self) -> None:
        self.path = self.base / str(next(self.numbers))
        self.rocks = RocksDbEngine(self.path, BUDGET)
        self.memory = MemoryEngine()
        for engine in (self.rocks, self.memory):
            engine.create_family(ROWS)

    base: Path
    numbers = count()

    @rule(
        writes=st.lists(
            st.tuples(st.sampled_from(KEYS), st.none() | st.binary(max_size=4)), max_size=5
        )
    )
    def write(self, writes: list[tuple[bytes, bytes | None]]) -> None:
        for engine in (self.rocks, self.memory):
            batch = engine.batch()
            batch.put_rows(ROWS, [key for key, _ in writes], [value for _, value in writes])
            engine.write(batch)

    @rule()
    def restart(self) -> None:
        self.rocks.close()
        self.rocks = RocksDbEngine(self.path, BUDGET)

    @rule()
    def replace(self) -> None:
        for engine in (self.rocks, self.memory):
            engine.drop_family(ROWS)
            engine.create_family(ROWS)

    @rule()
    def flush(self) -> None:
        self.rocks.flush()

    @invariant()
    def they_hold_the_same(self) -> None:
        if hasattr(self, "rocks"):
            assert list(self.rocks.scan(ROWS)) == list(self.memory.scan(ROWS))
            assert list(self.rocks.scan(CHANGELOG)) == list(self.memory.scan(CHANGELOG))

    def teardown(self) -> None:
        if hasattr(self, "rocks"):
            self.rocks.close()


def test_rocksdb_and_its_twin_agree_move_by_move(tmp_path: Path) -> None:
    EnginesAgree.base = tmp_path
    run_state_machine_as_test(
        EnginesAgree,
        settings=settings(
            max_examples=20,
            stateful_step_count=15,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
