"""A store and a simple reference answer alike after random batches, crashes and format changes.

Each type of store has a state machine on each engine. `QSS_MODEL_EXAMPLES=500` makes more runs.
"""

import asyncio
import os
import shutil
from collections.abc import Coroutine, Iterator
from dataclasses import replace
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
from qss_testing.clients.http import Api
from qss_testing.faults.faulty_engine import Crash
from qss_testing.pods.one_pod import OnePod
from qss_testing.pods.stores import Put, make_definition
from qss_testing.reference.store_questions import Pages, ask_count, ask_points, ask_rows, ask_scan
from qss_testing.reference.store_reference import KEEPS, Reference
from qss_testing.reference.store_scans import PARTITION_OF, Question, scan_of
from qss_testing.writers.model_writer import ModelWriter, Puts

pytestmark = pytest.mark.long

EXAMPLES = {
    engine: int(os.environ.get("QSS_MODEL_EXAMPLES", usual))
    for engine, usual in (("memory", 7), ("rocksdb", 3))
}
STEPS = 25
MINUTE = 60_000
START = 30 * MINUTE
RETENTION = 10 * MINUTE
PAGES_MAX = 300

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
# Times relative to stream time, within the retention and older, at whole minutes and beside them.
TIMES = st.builds(
    lambda minutes, beside: minutes * MINUTE + beside,
    st.sampled_from([*range(-13, 3), 0, 0, -9, -10, 25]),
    st.sampled_from([0, 0, 0, 0, 0, 0, 1, -1]),
)
HEADERS = st.sampled_from([(), (), (("h", b"1"),), (("h", None), ("g", b"2"))])
ROWS = st.lists(
    st.tuples(
        KEYS,
        TIMES,
        st.sampled_from([0, MINUTE, 5 * MINUTE]),  # The length of a session.
        st.sampled_from([True, True, True, False]),  # Whether the row has a value.
        st.sampled_from([True, True, False]),  # Whether the row has a timestamp.
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
    """One pod with two writers and readers; rules change its format, restart it and crash it."""

    kind: ClassVar[str]
    engine: ClassVar[str]
    base: ClassVar[Path]
    loop: ClassVar[asyncio.AbstractEventLoop]
    numbers: ClassVar[Iterator[int]] = count()

    def __init__(self) -> None:
        super().__init__()
        definition = make_definition(2, **KINDS[self.kind])
        self.directory = self.base / str(next(self.numbers))
        self.pod = self.run(OnePod.started(definition, self.directory, self.engine))
        self.pod.clock.now_s = START / 1000
        self.reference = Reference.of(definition)
        self.writers = {name: ModelWriter(self.pod, self.reference, name) for name in ("v", "w")}
        self.pages: list[Pages] = []
        self.values = count(1)
        self.looks = 0

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Runs one step; the pod does nothing between steps."""
        return self.loop.run_until_complete(work)

    def teardown(self) -> None:
        """Reads all open scans to their ends."""
        try:
            for pages in self.pages:
                self.run(read_pages(self.pod.api, self.reference, pages))
        finally:
            self.run(self.pod.stop())
            shutil.rmtree(self.directory)

    @property
    def now(self) -> int:
        """The largest time in the store, cut to a whole minute so that random times coincide."""
        latest = max(START, *(self.reference.stream_time(number) for number in range(2)))
        return latest // MINUTE * MINUTE

    def puts(self, rows: list[Any]) -> Puts:
        """Rows with distinct values, by partition and sorted by key."""
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

    @rule(name=WRITERS, newest=st.booleans(), reverse=st.booleans(), replaces=SELDOM)
    def commit(self, name: str, *, newest: bool, reverse: bool, replaces: bool) -> None:
        writer = self.writers[name]
        chunks = writer.winners(newest=newest, reverse=reverse)
        self.run(writer.commit(chunks, replaces=replaces))

    @rule(name=WRITERS, rows=ROWS, replaces=SELDOM)
    def carry(self, name: str, rows: list[Any], *, replaces: bool) -> None:
        self.run(self.writers[name].carry(self.puts(rows), replaces=replaces))

    @rule(name=WRITERS)
    def repeat(self, name: str) -> None:
        self.run(self.writers[name].stage_again())
        self.run(self.writers[name].replay())

    @rule(name=WRITERS, what=st.sampled_from(["abort", "open", "open", "take over"]))
    def end_the_run(self, name: str, what: str) -> None:
        writer = self.writers[name]
        if what == "abort":
            self.run(writer.abort())
        else:
            self.run(writer.open(takes_over=what == "take over"))

    # --- Formats

    @rule(data=st.data(), steps=st.lists(st.sampled_from([0, 1]), max_size=3))
    def change_format(self, data: st.DataObject, steps: list[int]) -> None:
        target = data.draw(st.sampled_from(FORMATS[self.reference.definition.type]))
        self.run(self.pod.change_format(target))
        self.reference.change_format(target)
        for number in steps:
            self.run(self.pod.move_rows(number, 1))

    @rule(number=st.integers(0, 1), rows=st.integers(0, 3))
    def move(self, number: int, rows: int) -> None:
        if rows:
            self.run(self.pod.move_rows(number, rows))
        else:
            self.run(self.pod.move_all_rows(number))
            self.reference.move_all(number)

    # --- Ends of the process

    @rule()
    def restart(self) -> None:
        self.run(self.pod.restart())

    @rule(
        during=st.sampled_from(["nothing", "a batch", "a batch", "a move", "a change"]),
        writes=WRITES,
        loses_power=st.booleans(),
        data=st.data(),
    )
    def crash(self, during: str, writes: int, data: st.DataObject, *, loses_power: bool) -> None:
        if during == "a batch":
            writer, rows = self.writers[data.draw(WRITERS)], data.draw(ROWS)
            self.run(
                writer.carry_through_a_crash(
                    self.puts(rows), writes, replaces=data.draw(SELDOM), loses_power=loses_power
                )
            )
        elif during == "nothing":
            self.run(self.pod.crash(loses_power=loses_power))
        else:
            target = data.draw(st.sampled_from(FORMATS[self.reference.definition.type]))
            change = during == "a change"
            work = self.pod.change_format(target) if change else self.pod.move_all_rows(writes % 2)
            self.run(self.pod.crash_during(work, writes // 5 + 1, loses_power=loses_power))
            if change:
                self.run(self.pod.change_format(target))
                self.reference.change_format(target)

    # --- Questions

    def asked(self, question: Question) -> Question:
        """The question with its times moved to the time of the store."""
        moved = {
            name: None if time is None else self.now + time
            for name, time in (("first", question.first), ("last", question.last))
        }
        return replace(question, first=moved["first"], last=moved["last"])

    @rule(question=QUESTIONS)
    def ask(self, question: Question) -> None:
        asked, api, reference = self.asked(question), self.pod.api, self.reference
        scan = scan_of(asked, reference.definition.type)
        self.run(ask_scan(api, reference, scan, streamed=asked.streamed))
        self.run(ask_points(api, reference, asked))
        self.run(ask_rows(api, reference, asked))

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
        self.looks += 1
        reverse, limit = bool(self.looks % 2), self.looks % 5 + 1
        self.run(look(self.pod.api, self.reference, reverse=reverse, limit=limit))
        if self.engine == "memory":  # RocksDB's count is an estimate.
            self.run(ask_count(self.pod.api, self.reference))


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


async def look(api: Api, reference: Reference, *, reverse: bool, limit: int) -> None:
    """Compares all rows: committed rows in pages, and all rows with staged rows in one scan."""
    kind = reference.definition.type
    question = replace(EVERYTHING, reverse=reverse, by_time=limit > 3)
    if kind is not StoreType.VERSIONED:
        await read_pages(api, reference, Pages(scan_of(question, kind), limit))
        staged = replace(question, uncommitted=True)
        await ask_scan(api, reference, scan_of(staged, kind), streamed=False)
        return
    for key in PARTITION_OF:
        scan = scan_of(replace(question, key=key), kind)
        await read_pages(api, reference, Pages(scan, limit))
    key, number = [*PARTITION_OF.items()][limit]
    for found in reference.versions(number, key.encode(), None, None):
        for time in (found.time, found.time - 1):
            await ask_points(api, reference, replace(question, key=key, first=time))
    staged = replace(question, key=key, uncommitted=True)
    await ask_scan(api, reference, scan_of(staged, kind), streamed=False)
    await ask_points(api, reference, staged)


async def read_pages(api: Api, reference: Reference, pages: Pages) -> None:
    """Reads a scan to its end."""
    for _ in range(PAGES_MAX):
        if pages.is_over:
            return
        await pages.next_page(api, reference)
    raise AssertionError("the scan does not end")


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """The event loop on which the pods of a machine run."""
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(_tell_unless_it_is_a_crash)
    yield loop
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


def _tell_unless_it_is_a_crash(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Reports failed tasks, except tasks that a simulated crash has ended."""
    if not isinstance(context.get("exception"), Crash):
        loop.default_exception_handler(context)


@pytest.mark.parametrize("engine", [*EXAMPLES])
@pytest.mark.parametrize("kind", [*KINDS])
def test_a_store_answers_like_the_reference(
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
