"""Readers of one partition see the rows of a simple reference while random batches come."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random  # noqa: TID251 the seed is in the test's id.
from typing import Any

import pytest

from qss_core.formats.segments import segments_of
from qss_core.formats.values import Format, splitter_of
from qss_core.model import Isolation, PartitionId, StoreType
from qss_core.queries.parameters import ReadOptions
from qss_store.reads.routing.admission import Reading
from qss_store.storage.views.segmented import SegmentedView
from qss_testing.clients.readings import open_reading, prepared_reading
from qss_testing.pods.stores import Cluster, make_definition, open_memory, open_rocksdb
from qss_testing.reference.store_reference import Rows
from qss_testing.reference.uncommitted_model import MINUTE, Model, in_format

ENGINES = {"memory": open_memory, "rocksdb": open_rocksdb}
SEEDS = range(2)
STEPS = 60
ZERO = PartitionId(0)
COMMITTED = ReadOptions(isolation=Isolation.READ_COMMITTED)
UNCOMMITTED = ReadOptions(isolation=Isolation.READ_UNCOMMITTED)
TIMES: dict[str, Any] = {"retention_ms": 10 * MINUTE}
DEFINITIONS = {
    "KeyValue": make_definition(1),
    "Window": make_definition(1, type=StoreType.WINDOW, **TIMES),
    "Duplicates": make_definition(1, type=StoreType.WINDOW, retain_duplicates=True, **TIMES),
    "Session": make_definition(1, type=StoreType.SESSION, **TIMES),
}

Seen = dict[bytes, tuple[bytes, int | None]]


@dataclass
class _Open:
    """An open scan, and the rows that it still has to return."""

    rows: Iterator[tuple[bytes, bytes]]
    wanted: list[tuple[bytes, tuple[bytes, int | None]]]
    shown_in: Format


class Watcher:
    """A reader that checks each state by all methods of a view, and leaves scans open."""

    def __init__(self, cluster: Cluster, model: Model) -> None:
        self.cluster = cluster
        self.model = model
        self.open: list[_Open] = []
        self.tokens: dict[str, tuple[object, ...]] = {}

    @property
    def format(self) -> Format:
        return Format(self.cluster.definition.format)

    async def look(self) -> None:
        pod, model = self.cluster.nodes[0].pod, self.model
        committed = open_reading(pod, COMMITTED, self.format)
        self.check(committed, model.committed)
        assert committed.view.staged == ""
        reading = await prepared_reading(pod, UNCOMMITTED, self.format)
        self.check(reading, model.uncommitted())
        assert open_reading(pod, UNCOMMITTED, self.format).view is reading.view
        view = reading.view
        assert (view.sequence, view.position) == (model.sequence, committed.view.position)
        visible = tuple(one.chunk for one in model.visible())
        assert bool(view.staged) is bool(visible)
        state = (model.sequence, visible)
        assert self.tokens.setdefault(f"{view.applied}-{view.staged}", state) == state

    def check(self, reading: Reading, rows: Rows) -> None:
        seen, random = rows.seen(self.model.definition), self.model.random
        snapshot, every = reading.view.rows, [*rows.by_key, b"none".rjust(24)]
        assert self.rows_of(snapshot.scan()) == seen
        assert [*self.rows_of(snapshot.scan(reverse=True))] == [*reversed(seen)]
        wanted = [seen.get(key) for key in every]
        assert [self.row_of(snapshot.get(key)) for key in every] == wanted
        assert [self.row_of(row) for row in snapshot.get_many(every)] == wanted
        lower, upper = sorted(random.sample(every, 2)) if len(every) > 1 else (b"", b"\xff")
        inside = {key: row for key, row in seen.items() if lower <= key < upper}
        for reverse in (False, True):
            found = self.rows_of(snapshot.scan(lower=lower, upper=upper, reverse=reverse))
            assert [*found.items()] == sorted(inside.items(), reverse=reverse)
        if isinstance(snapshot, SegmentedView):
            assert reading.view.stream_time == rows.stream_time
            self.check_times(snapshot, seen)
        if random.random() < 0.2:
            self.begin_scan(reading, seen)

    def check_times(self, snapshot: SegmentedView, seen: Seen) -> None:
        rules = segments_of(self.model.definition)
        assert rules is not None
        first, last = sorted(self.model.random.choices(range(0, 60 * MINUTE, MINUTE), k=2))
        found = self.rows_of(snapshot.scan(earliest=first, latest=last))
        assert found == {key: v for key, v in seen.items() if first <= rules.time_of(key) <= last}

    def begin_scan(self, reading: Reading, seen: Seen) -> None:
        reverse = self.model.random.random() < 0.5
        rows = reading.view.rows.scan(reverse=reverse)
        wanted = sorted(seen.items(), reverse=reverse)
        begun = _Open(rows, wanted, self.format)
        self.open.append(begun)
        if self.model.random.random() < 0.5:
            self.go_on(begun, 1)

    def go_on(self, scan: _Open, rows_max: int) -> None:
        for wanted in scan.wanted[:rows_max]:
            key, row = next(scan.rows)
            assert (key, _parts(scan.shown_in, row)) == wanted
        del scan.wanted[:rows_max]

    def end_scans(self, share: float) -> None:
        for scan in [*self.open]:
            if self.model.random.random() < share:
                self.open.remove(scan)
                self.go_on(scan, len(scan.wanted))
                assert next(scan.rows, None) is None

    def rows_of(self, rows: Iterator[tuple[bytes, bytes]]) -> Seen:
        return {key: _parts(self.format, row) for key, row in rows}

    def row_of(self, row: bytes | None) -> tuple[bytes, int | None] | None:
        return None if row is None else _parts(self.format, row)


def _parts(store_format: Format, row: bytes) -> tuple[bytes, int | None]:
    _, timestamp, value = splitter_of(store_format)(row)
    return value, timestamp


@pytest.mark.parametrize("engine", ["memory", "rocksdb"])
@pytest.mark.parametrize("kind", [*DEFINITIONS])
@pytest.mark.parametrize("seed", SEEDS)
async def test_readers_see_the_rows_of_the_reference(
    tmp_path: Path, seed: int, kind: str, engine: str
) -> None:
    random = Random(f"{seed}-{kind}")
    definition = DEFINITIONS[kind]
    cluster = Cluster(definition, tmp_path, ENGINES[engine]())
    await cluster.start(1)
    model = Model(random, definition)
    watcher = Watcher(cluster, model)
    try:
        for _ in range(STEPS):
            for _ in range(random.randrange(1, 4)):
                await model.step(cluster.active(0))
            await watcher.look()
            watcher.end_scans(0.3)
            if random.random() < 0.06:
                watcher.end_scans(1)
                await cluster.stop_pod(0)
                await cluster.start_pod(0)
                await watcher.look()
            elif random.random() < 0.05 and kind != "Session":
                formats = ["Timestamped", "TimestampedWithHeaders"]
                cluster.definition = in_format(cluster.definition, random.choice(formats))
                await cluster.nodes[0].pod.assign(cluster.assignment(_placed(cluster)))
                await watcher.look()
            elif random.random() < 0.2:
                await cluster.active(0).format_change.move_rows(3)
        watcher.end_scans(1)
    finally:
        await cluster.close()


def _placed(cluster: Cluster) -> list[Any]:
    return [cluster.active(0).log.configuration]
