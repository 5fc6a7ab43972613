"""Everything that happens to a store, at random, against a dumb reference: equal answers, always.

One machine for each type of store and each engine. More stories: `QSS_MODEL_EXAMPLES=500`.
"""

import asyncio
import os
import shutil
from collections.abc import Coroutine, Iterator
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from qss_core.model import StoreType
from qss_testing.faulty_engine import Crash
from qss_testing.model_writer import ModelWriter, Puts
from qss_testing.one_pod import OnePod
from qss_testing.store_questions import Pages, ask_count, ask_points, ask_rows, ask_scan
from qss_testing.store_reference import KEEPS, Reference
from qss_testing.store_scans import PARTITION_OF, Question, scan_of
from qss_testing.stores import Put, make_definition

EXAMPLES = {
    engine: int(os.environ.get("QSS_MODEL_EXAMPLES", usual))
    for engine, usual in (("memory", 8), ("rocksdb", 4))
}
STEPS = 30
MINUTE = 60_000
START = 30 * MINUTE
RETENTION = 10 * MINUTE
PAGES_MAX = 100

WINDOW: dict[str, Any] = {"type": StoreType.WINDOW, "retention_ms": RETENTION}
KINDS: dict[str, dict[str, Any]] = {
    "KeyValue": {},
    "Window": {**WINDOW, "window_size_ms": MINUTE},
    "Duplicates": {**WINDOW, "window_size_ms": MINUTE, "retain_duplicates": True},
    "Session": {"type": StoreType.SESSION, "retention_ms": RETENTION, "session_gap_ms": MINUTE},
    "Versioned": {"type": StoreType.VERSIONED, "history_retention_ms": RETENTION},
}
FORMATS = {
    StoreType.KEY_VALUE: ["Plain", "Timestamped", "TimestampedWithHeaders"],
    StoreType.WINDOW: [*KEEPS],
    StoreType.SESSION: ["Plain", "PlainWithHeaders"],
    StoreType.VERSIONED: ["Plain"],
}

KEYS = st.sampled_from([key for key in PARTITION_OF if key != "none"])
# Around stream time, as far back as rows may come, and further; at bounds, and beside them.
TIMES = st.builds(
    lambda minutes, beside: minutes * MINUTE + beside,
    st.sampled_from([*range(-13, 3), 0, 0, -9, -10, 25]),
    st.sampled_from([0, 0, 0, 1, -1]),
)
HEADERS = st.sampled_from([(), (), (("h", b"1"),), (("h", None), ("g", b"2"))])
ROWS = st.lists(
    st.tuples(
        KEYS,
        TIMES,
        st.sampled_from([0, MINUTE, 5 * MINUTE]),  # How long a session is.
        st.sampled_from([True, True, True, False]),  # Whether it has a value.
        st.sampled_from([True, True, False]),  # Whether it has a timestamp.
        HEADERS,
    ),
    min_size=1,
    max_size=8,
)
QUESTIONS = st.builds(
    Question,
    key=st.sampled_from([*PARTITION_OF]),
    key_from=st.none() | KEYS,
    key_to=st.none() | KEYS,
    first=st.none() | TIMES,
    last=st.none() | TIMES,
    reverse=st.booleans(),
    by_time=st.booleans(),
    uncommitted=st.booleans(),
    of_key=st.booleans(),
    streamed=st.booleans(),
)
WRITERS = st.sampled_from(["v", "w"])
SELDOM = st.sampled_from([False] * 7 + [True])
ATTEMPTS = st.integers(0, 2)
WRITES = st.integers(1, 30)


class Store(RuleBasedStateMachine):
    """One pod, two writers, readers, and what the operator and the machine do to it."""

    kind: ClassVar[str]
    engine: ClassVar[str]
    base: ClassVar[Path]
    loop: ClassVar[asyncio.AbstractEventLoop]
    numbers: ClassVar[Iterator[int]] = count()

    def __init__(self) -> None:
        """An empty store."""
        super().__init__()
        definition = make_definition(2, **KINDS[self.kind])
        self.directory = self.base / str(next(self.numbers))
        self.pod = self.run(OnePod.started(definition, self.directory, self.engine))
        self.pod.clock.now_s = START / 1000
        self.reference = Reference.of(definition)
        self.writers = {name: ModelWriter(self.pod, self.reference, name) for name in ("v", "w")}
        self.pages: list[Pages] = []
        self.values = count(1)

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Runs one step; between steps, the pod stands still."""
        return self.loop.run_until_complete(work)

    def teardown(self) -> None:
        """Reads all scans to their ends."""
        try:
            for pages in self.pages:
                for _ in range(PAGES_MAX):
                    if pages.is_over:
                        break
                    self.run(pages.next_page(self.pod.api, self.reference))
                assert pages.is_over
        finally:
            self.run(self.pod.stop())
            shutil.rmtree(self.directory)

    @property
    def now(self) -> int:
        """The largest time in the store."""
        return max(START, *(self.reference.stream_time(number) for number in range(2)))

    def puts(self, rows: list[Any]) -> Puts:
        """Rows with values of their own, by partition, sorted by key."""
        kind = self.reference.definition.type
        of_partition: dict[int, list[Put]] = {}
        for key, time, length, has_value, has_timestamp, headers in rows:
            start = max(0, self.now + time)
            number = next(self.values)
            stamp = start if kind is StoreType.VERSIONED else number
            put = Put(
                key.encode(),
                b"%d" % number if has_value else None,
                stamp if has_timestamp else None,
                () if kind is StoreType.VERSIONED else headers,
                start=start,
                end=start + length,
            )
            of_partition.setdefault(PARTITION_OF[key], []).append(put)
        return {
            number: sorted(puts, key=lambda put: put.key)
            for number, puts in sorted(of_partition.items())
        }

    # --- Batches

    @rule(name=WRITERS, task=ATTEMPTS, attempt=ATTEMPTS, rows=ROWS)
    def stage(self, name: str, task: int, attempt: int, rows: list[Any]) -> None:
        self.run(self.writers[name].stage(task, attempt, self.puts(rows)))

    @rule(name=WRITERS)
    def stage_again(self, name: str) -> None:
        self.run(self.writers[name].stage_again())

    @rule(name=WRITERS, newest=st.booleans(), reverse=st.booleans(), replaces=SELDOM)
    def commit(self, name: str, *, newest: bool, reverse: bool, replaces: bool) -> None:
        writer = self.writers[name]
        chunks = writer.winners(newest=newest, reverse=reverse)
        self.run(writer.commit(chunks, replaces=replaces))

    @rule(name=WRITERS, rows=ROWS, replaces=SELDOM)
    def carry(self, name: str, rows: list[Any], *, replaces: bool) -> None:
        self.run(self.writers[name].carry(self.puts(rows), replaces=replaces))

    @rule(name=WRITERS)
    def abort(self, name: str) -> None:
        self.run(self.writers[name].abort())

    @rule(name=WRITERS, takes_over=SELDOM)
    def open(self, name: str, *, takes_over: bool) -> None:
        self.run(self.writers[name].open(takes_over=takes_over))

    @rule(name=WRITERS)
    def replay(self, name: str) -> None:
        self.run(self.writers[name].replay())

    # --- Formats

    @rule(data=st.data())
    def change_format(self, data: st.DataObject) -> None:
        target = data.draw(st.sampled_from(FORMATS[self.reference.definition.type]))
        self.run(self.pod.change_format(target))
        self.reference.change_format(target)

    @rule(number=st.integers(0, 1), rows=st.integers(1, 4))
    def move_some(self, number: int, rows: int) -> None:
        self.run(self.pod.move_rows(number, rows))

    @rule(number=st.integers(0, 1))
    def move_all(self, number: int) -> None:
        self.run(self.pod.move_all_rows(number))
        self.reference.move_all(number)

    # --- Ends of the process

    @rule()
    def restart(self) -> None:
        self.run(self.pod.restart())

    @rule(loses_power=st.booleans())
    def crash(self, *, loses_power: bool) -> None:
        self.run(self.pod.crash(loses_power=loses_power))

    @rule(name=WRITERS, rows=ROWS, writes=WRITES, replaces=SELDOM, loses_power=st.booleans())
    def crash_in_a_batch(
        self, name: str, rows: list[Any], writes: int, *, replaces: bool, loses_power: bool
    ) -> None:
        puts = self.puts(rows)
        self.run(
            self.writers[name].carry_through_a_crash(
                puts, writes, replaces=replaces, loses_power=loses_power
            )
        )

    @rule(number=st.integers(0, 1), writes=st.integers(1, 6), loses_power=st.booleans())
    def crash_in_a_move(self, number: int, writes: int, *, loses_power: bool) -> None:
        work = self.pod.move_all_rows(number)
        self.run(self.pod.crash_during(work, writes, loses_power=loses_power))

    @rule(data=st.data(), writes=st.integers(1, 6), loses_power=st.booleans())
    def crash_in_a_change(self, data: st.DataObject, writes: int, *, loses_power: bool) -> None:
        target = data.draw(st.sampled_from(FORMATS[self.reference.definition.type]))
        work = self.pod.change_format(target)
        self.run(self.pod.crash_during(work, writes, loses_power=loses_power))
        self.run(self.pod.change_format(target))
        self.reference.change_format(target)

    # --- Questions

    def asked(self, question: Question) -> Question:
        """The question, its times around the store's."""
        moved = {
            name: None if time is None else self.now + time
            for name, time in (("first", question.first), ("last", question.last))
        }
        return Question(**{**vars(question), **moved})

    @rule(question=QUESTIONS)
    def ask(self, question: Question) -> None:
        asked, api, reference = self.asked(question), self.pod.api, self.reference
        scan = scan_of(asked, reference.definition.type)
        self.run(ask_scan(api, reference, scan, streamed=asked.streamed))
        self.run(ask_points(api, reference, asked))
        self.run(ask_rows(api, reference, asked))
        if self.engine == "memory":  # RocksDB's count is an estimate.
            self.run(ask_count(api, reference))

    @rule(question=QUESTIONS, limit=st.integers(1, 4))
    def begin_pages(self, question: Question, limit: int) -> None:
        scan = scan_of(self.asked(question), self.reference.definition.type)
        pages = Pages(scan, limit)
        self.run(pages.next_page(self.pod.api, self.reference))
        self.pages.append(pages)

    @precondition(lambda self: any(not pages.is_over for pages in self.pages))
    @rule(data=st.data())
    def turn_a_page(self, data: st.DataObject) -> None:
        left = [pages for pages in self.pages if not pages.is_over]
        pages = left[data.draw(st.integers(0, len(left) - 1))]
        self.run(pages.next_page(self.pod.api, self.reference))

    @invariant()
    def everything_is_as_the_reference_has_it(self) -> None:
        for uncommitted in (False, True):
            self.run(look(self.pod.api, self.reference, uncommitted=uncommitted))


EVERYTHING = Question(
    key="a",
    key_from=None,
    key_to=None,
    first=None,
    last=None,
    reverse=False,
    by_time=False,
    uncommitted=False,
    of_key=False,
    streamed=False,
)


async def look(api: Any, reference: Reference, *, uncommitted: bool) -> None:
    """All rows of the store."""
    kind = reference.definition.type
    keys = [*PARTITION_OF] if kind is StoreType.VERSIONED else ["a"]
    if kind is StoreType.VERSIONED and uncommitted:
        refused = await api.get("/state/versions/words/a?isolation=READ_UNCOMMITTED")
        refused.problem(400, "UNSUPPORTED_ISOLATION")
        return
    for key in keys:
        question = Question(**{**vars(EVERYTHING), "key": key, "uncommitted": uncommitted})
        await ask_scan(api, reference, scan_of(question, kind), streamed=False)


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """The loop on which a machine's pods live."""
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(_tell_unless_it_is_a_crash)
    yield loop
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


def _tell_unless_it_is_a_crash(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """A process that has ended tells nobody how its tasks have."""
    if not isinstance(context.get("exception"), Crash):
        loop.default_exception_handler(context)


@pytest.mark.parametrize("engine", [*EXAMPLES])
@pytest.mark.parametrize("kind", [*KINDS])
def test_a_store_answers_what_the_reference_answers(
    tmp_path: Path, loop: asyncio.AbstractEventLoop, kind: str, engine: str
) -> None:
    members = {"kind": kind, "engine": engine, "base": tmp_path, "loop": loop}
    machine = type(f"Store{kind}", (Store,), members)
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=EXAMPLES[engine],
            stateful_step_count=STEPS,
            derandomize=True,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
