"""Rows change their format while readers and writers work: every pair of formats, every engine."""

from collections.abc import Awaitable, Callable
from itertools import permutations
from pathlib import Path
from random import Random  # noqa: TID251 seeded, and the seed is in the test's id.
from typing import Any

import pytest

from qss_core.errors import StoreError
from qss_core.formats.timed_keys import encode_session_key, encode_window_key
from qss_core.formats.values import Format
from qss_core.model import PartitionId, StoreType
from qss_core.spec.resource import formats_of
from qss_store.storage.rocksdb.database import RocksDbEngine
from qss_testing.faults.faulty_engine import Faults, FaultyEngine
from qss_testing.memory_engine import MemoryEngine
from qss_testing.pods.stores import (
    Cluster,
    Put,
    commit_rows,
    configuration,
    make_definition,
)
from qss_testing.reference.migrations import (
    STEP_ROWS,
    FormatModel,
    change_format,
    check_places,
    move_all,
    only_replica,
    shown,
    sources_of,
)
from qss_testing.row_bytes import Record

MINUTE = 60_000
HOUR = 60 * MINUTE
STORE: dict[str, Any] = {}
Make = Callable[..., Awaitable[Cluster]]
KINDS: dict[str, dict[str, Any]] = {
    "KeyValue": {"type": StoreType.KEY_VALUE},
    "Window": {"type": StoreType.WINDOW},
    "Duplicates": {"type": StoreType.WINDOW, "retain_duplicates": True},
    "Session": {"type": StoreType.SESSION},
}
PAIRS = [
    pytest.param(kind, old, new, id=f"{kind}-{old}-{new}")
    for kind, members in KINDS.items()
    for old, new in permutations(formats_of(members["type"]), 2)
]
KEYS = [f"key-{number:02}".encode() for number in range(30)]
TIMES = [0, 5 * HOUR, 13 * HOUR, 20 * HOUR]  # The segments have twelve hours.


class Told:
    """One partition, its model, and the steps that change both."""

    def __init__(self, cluster: Cluster, random: Random) -> None:
        self.cluster = cluster
        self.random = random
        self.model = FormatModel(Format(cluster.definition.format))
        self.puts = 0

    async def write(self) -> None:
        """Commits a batch: most rows are put, some deleted, some put twice."""
        rows = [self._row(self.random.choice(KEYS)) for _ in range(self.random.randrange(1, 25))]
        duplicates = self.cluster.definition.retain_duplicates
        for row in rows:
            if row.value is None:
                if not duplicates:
                    self.model.delete(self._key(row))
                continue
            self.puts += 1
            assert row.timestamp is not None
            self.model.put(self._key(row), Record(row.value, row.timestamp, row.headers))
        replica, batch = only_replica(self.cluster), self.cluster.batch
        await commit_rows(replica, rows, batch=batch, position={"in": {"0": batch}})
        self.cluster.batch += 1

    def _row(self, key: bytes) -> Put:
        random = self.random
        value = None if random.random() < 0.2 else b"%d" % random.randrange(10**6)
        headers = (("h", b"%d" % random.randrange(9)),) if random.random() < 0.5 else ()
        start = random.choice(TIMES)
        return Put(key, value, random.randrange(10**9), headers, start, start + MINUTE)

    def _key(self, row: Put) -> bytes:
        match self.cluster.definition.type:
            case StoreType.WINDOW:
                sequence = self.puts if self.cluster.definition.retain_duplicates else 0
                return encode_window_key(row.key, row.start, sequence)
            case StoreType.SESSION:
                return encode_session_key(row.key, row.start, row.end)
        return row.key

    async def change(self, target: str) -> None:
        """Changes the format; the rows that readers see stay the same."""
        before = self._state()
        await change_format(self.cluster, target)
        if target != self.model.format:
            self.model.change(Format(target))
        assert self._state() == before

    async def move(self) -> None:
        """Moves one step of rows; no answer changes."""
        replica = only_replica(self.cluster)
        before, rows = self._state(), list(shown(replica).rows.scan())
        held = shown(replica).rows.scan(reverse=True)
        first = next(held, None)
        await replica.format_change.move_rows(7)
        assert self._state() == before
        assert list(shown(replica).rows.scan()) == rows
        assert ([first, *held] if first else []) == rows[::-1], "a scan keeps what it began with"

    async def restart(self) -> None:
        """Ends the pod's process and starts it again."""
        before = self._state()
        await self.cluster.stop_pod(0)
        await self.cluster.start_pod(0)
        assert self._state() == before

    def _state(self) -> tuple[object, ...]:
        view = shown(only_replica(self.cluster))
        return view.sequence, view.position, view.applied, view.stream_time


@pytest.mark.parametrize(("kind", "old", "new"), PAIRS)
async def test_rows_are_what_they_were_all_the_way_there_and_back(
    kind: str, old: str, new: str, make: Make
) -> None:
    cluster = await make(**KINDS[kind], format=old)
    told = Told(cluster, Random(f"{kind}-{old}-{new}"))
    others = [one.value for one in formats_of(cluster.definition.type)]
    for _ in range(3):
        await told.write()
    await told.change(new)
    for number in range(24):
        match told.random.randrange(8):
            case 0 | 1 | 2:
                await told.write()
            case 3 | 4 | 5:
                await told.move()
            case 6:
                await told.restart()
            case 7:
                await told.change(told.random.choice(others))
        if number % 3 == 0:
            told.model.check(only_replica(cluster))
    for target in (new, old):
        await told.change(target)
        await told.write()
        await told.move()
        await move_all(only_replica(cluster))
        assert sources_of(only_replica(cluster)) == []
        told.model.check(only_replica(cluster))


def rows_of(count: int) -> list[Put]:
    return [Put(b"%05d" % number, b"%d" % number, number) for number in range(count)]


async def test_a_family_is_dropped_when_it_is_empty_and_progress_is_told(make: Make) -> None:
    cluster = await make()
    await commit_rows(only_replica(cluster), rows_of(450), batch=0, position={})
    await change_format(cluster, "TimestampedWithHeaders")
    replica = only_replica(cluster)
    report = replica.migration.report(replica.views.families)
    assert report is not None
    assert (report.formats, report.rows_moved, report.rows_left) == (("Timestamped",), 0, 450)
    await replica.format_change.move_rows(STEP_ROWS)
    report = replica.migration.report(replica.views.families)
    assert report is not None
    assert (report.rows_moved, report.rows_left) == (STEP_ROWS, 250)
    await cluster.stop_pod(0)
    await cluster.start_pod(0)
    replica = only_replica(cluster)
    report = replica.migration.report(replica.views.families)
    assert report is not None
    assert report.rows_moved == STEP_ROWS, "it goes on where it was"
    assert await move_all(replica) == 250
    assert replica.migration.report(replica.views.families) is None
    assert "rows-Timestamped-0" not in replica.engine.families()
    assert dict(replica.engine.scan("meta", lower=b"moved", upper=b"movee")) == {}


@pytest.mark.parametrize("restarts", [False, True])
async def test_there_and_back_and_there_again_finds_what_was_written_in_between(
    restarts: bool, make: Make
) -> None:
    """The marks of progress of the first migration must not count for the second."""
    cluster = await make()
    await commit_rows(only_replica(cluster), rows_of(450), batch=0, position={})
    for batch, target in enumerate(["Plain", "Timestamped", "Plain"], start=1):
        await change_format(cluster, target)
        await commit_rows(
            only_replica(cluster), [Put(b"00%d" % batch, b"new", 1)], batch=batch, position={}
        )
        if restarts:
            await cluster.stop_pod(0)
            await cluster.start_pod(0)
        if batch < 3:
            await only_replica(cluster).format_change.move_rows(STEP_ROWS)
        assert len(list(shown(only_replica(cluster)).rows.scan())) == 450 + batch
    await move_all(only_replica(cluster))
    assert len(list(shown(only_replica(cluster)).rows.scan())) == 453


async def test_a_scan_keeps_its_state_whole_while_rows_move_under_it(make: Make) -> None:
    cluster = await make()
    replica = only_replica(cluster)
    await commit_rows(replica, rows_of(450), batch=0, position={})
    await change_format(cluster, "Plain")
    await replica.format_change.move_rows(STEP_ROWS)
    scans = [shown(replica).rows.scan(reverse=reverse) for reverse in (False, True)]
    read = [[next(one) for _ in range(10)] for one in scans]
    await move_all(replica)
    for rows, scan in zip(read, scans, strict=True):
        assert len(rows + list(scan)) == 450


async def test_a_scan_while_an_emptied_family_goes_finds_every_row_once(make: Make) -> None:
    """The last rows have moved, and their old family is dropped."""
    cluster, faults = await make(), Faults()
    open_engine = cluster.open_engine
    await cluster.stop_pod(0)
    cluster.open_engine = lambda path: FaultyEngine(open_engine(path), faults)
    await cluster.start_pod(0)
    replica = only_replica(cluster)
    await commit_rows(replica, rows_of(300), batch=0, position={})
    await change_format(cluster, "Plain")
    await replica.format_change.move_rows(STEP_ROWS)
    assert len(list(shown(replica).rows.scan(upper=b"00100"))) == 100
    seen: list[int] = []
    before = replica.engine.families()
    faults.look = lambda: seen.append(len(list(shown(replica).rows.scan())))
    await replica.format_change.move_rows(STEP_ROWS)
    assert len(before - replica.engine.families()) == 1
    # One look before the rows move, one before the drop of their family.
    assert seen == [300, 300]


async def test_a_row_that_no_format_reads_stops_nothing_but_itself(make: Make) -> None:
    cluster = await make()
    replica = only_replica(cluster)
    await commit_rows(replica, rows_of(20), batch=0, position={})
    broken = replica.engine.batch()
    broken.put("rows-Timestamped-0", b"00007", b"short")
    replica.engine.write(broken)
    await change_format(cluster, "TimestampedWithHeaders")
    step = await replica.format_change.move_rows(STEP_ROWS)
    assert step is not None
    assert step.rows == 7
    with pytest.raises(StoreError, match="write the row again"):
        await replica.format_change.move_rows(STEP_ROWS)
    snapshot = shown(replica).rows
    with pytest.raises(StoreError, match="write the row again"):
        snapshot.get(b"00007")
    assert snapshot.get(b"00008") is not None
    await commit_rows(replica, [Put(b"00007", b"7", 7)], batch=1, position={})
    await move_all(replica)
    assert len(list(shown(replica).rows.scan())) == 20
    check_places(replica)


async def test_a_restart_in_another_format_than_the_one_on_disk_finds_every_row(
    make: Make, tmp_path: Path
) -> None:
    """The pod kept the new format on its volume, and ended before it did anything else."""
    cluster = await make()
    await commit_rows(only_replica(cluster), rows_of(30), batch=0, position={})
    before = [(key, row[8:]) for key, row in shown(only_replica(cluster)).rows.scan()]
    await cluster.stop_pod(0)
    cluster.definition = make_definition(1, format="Plain")
    kept = tmp_path / "0" / "assignment.json"
    kept.write_bytes(kept.read_bytes().replace(b'"Timestamped"', b'"Plain"'))
    await cluster.start_pod(0)
    assert list(shown(only_replica(cluster)).rows.scan()) == before
    assert await move_all(only_replica(cluster)) == 30
    assert list(shown(only_replica(cluster)).rows.scan()) == before


async def test_what_replaces_all_rows_leaves_none_of_an_older_format(make: Make) -> None:
    cluster = await make()
    replica = only_replica(cluster)
    await commit_rows(replica, rows_of(300), batch=0, position={})
    await change_format(cluster, "Plain")
    await replica.format_change.move_rows(STEP_ROWS)
    await commit_rows(replica, rows_of(2), batch=1, position={}, replace=True)
    assert sources_of(replica) == []
    assert list(shown(replica).rows.scan()) == [(b"00000", b"0"), (b"00001", b"1")]
    assert await replica.format_change.move_rows(STEP_ROWS) is None


async def test_segments_that_expire_take_their_rows_of_older_formats_along(make: Make) -> None:
    cluster = await make(type=StoreType.WINDOW)
    replica = only_replica(cluster)
    old = [Put(b"a", b"1", 1, start=0), Put(b"b", b"2", 2, start=20 * HOUR)]
    await commit_rows(replica, old, batch=0, position={})
    await change_format(cluster, "Plain")
    assert len(sources_of(replica)) == 2
    await commit_rows(replica, [Put(b"c", b"3", 3, start=40 * HOUR)], batch=1, position={})
    assert len(sources_of(replica)) == 1
    assert [row for _, row in shown(replica).rows.scan()] == [b"2", b"3"]


async def test_a_format_that_the_type_does_not_have_is_refused(make: Make) -> None:
    cluster = await make()
    with pytest.raises(StoreError, match="KeyValue has no format PlainWithHeaders"):
        await change_format(cluster, "PlainWithHeaders")


async def test_a_family_that_rows_come_back_to_is_rid_of_what_was_deleted_there(make: Make) -> None:
    cluster = await make()
    replica = only_replica(cluster)
    await commit_rows(replica, rows_of(450), batch=0, position={})
    await change_format(cluster, "Plain")
    await replica.format_change.move_rows(STEP_ROWS)
    await change_format(cluster, "Timestamped")
    before = list(shown(replica).rows.scan())
    await replica.migration.compact()
    assert list(shown(replica).rows.scan()) == before
    if isinstance(replica.engine, RocksDbEngine):
        # The engine's estimate subtracts deleted rows that are still on disk.
        assert replica.engine.approximate_count("rows-Timestamped-0") == 250
    await move_all(replica)
    assert [key for key, _ in shown(replica).rows.scan()] == [key for key, _ in before]


async def test_a_moved_family_is_not_walked_over_again(tmp_path: Path) -> None:
    """Each scan would otherwise have to pass the rows that were deleted at the family's start."""
    scanned: list[bytes | None] = []

    class Watched(MemoryEngine):
        def scan(self, family: str, **bounds: Any) -> Any:
            if family == "rows-Timestamped-0":
                scanned.append(bounds.get("lower"))
            return super().scan(family, **bounds)

    held = Watched()
    cluster = Cluster(make_definition(1), tmp_path, lambda _: held)
    await cluster.start(1, [configuration(0, 0)])
    try:
        replica = cluster.nodes[0].pod.registry.replicas[PartitionId(0)]
        await commit_rows(replica, rows_of(450), batch=0, position={})
        await change_format(cluster, "Plain")
        await move_all(replica)
        assert scanned == [None, b"00199\x00", b"00399\x00"]
    finally:
        await cluster.close()
