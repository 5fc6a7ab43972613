"""A store with indexes of a user's own type: rows and index as readers see them, on each engine."""

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random  # noqa: TID251 seeded, and the seed is in the test's id.
from typing import Any

import msgspec
import pytest

from qss_core.errors import StoreError, StoreTypeFailedError
from qss_core.model import Isolation, PartitionId
from qss_core.queries.parameters import ReadOptions
from qss_core.queries.types import decode_query
from qss_store.reads.codec import Codec, codec_of
from qss_store.reads.encode.json import NdjsonRows
from qss_store.reads.plans.dispatch import plan_of
from qss_store.reads.plans.indexes import IndexPlan
from qss_store.reads.routing.admission import Reading
from qss_store.reads.scans.cursors import Piece
from qss_store.reads.scans.open_scan import RowScan, open_scan
from qss_store.runtime.metrics import Metrics
from qss_store.runtime.plugins import Extensions
from qss_store.storage.engine import META
from qss_testing.clients.readings import prepared_reading
from qss_testing.pods.stores import (
    WRITER,
    Cluster,
    Put,
    commit_chunks,
    commit_rows,
    open_memory,
    open_rocksdb,
    stage_rows,
)
from qss_testing.reference.migrations import change_format, move_all, only_replica
from qss_testing.reference.own_stores import (
    BY_VALUE,
    NEXT_BY_VALUE,
    ByValue,
    NextByValue,
    by_value,
    check_index,
)
from qss_testing.waiting import wait_until_async

ENGINES = {"memory": open_memory, "rocksdb": open_rocksdb}
ZERO = PartitionId(0)
KEYS = [f"key-{number:02}".encode() for number in range(30)]
VALUES = ["", "a", "ab", "a\0b", "b", "ba", "\uffff", "z" * 40]
Found = list[tuple[str, str, str]]  # Index key, key, value.


@pytest.fixture(params=ENGINES)
async def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Cluster]:
    """One partition on one pod."""
    open_engine = ENGINES[request.param]()
    cluster = Cluster(by_value(format="Timestamped"), tmp_path, open_engine, extensions=BY_VALUE)
    try:
        await cluster.start(1)
        yield cluster
    finally:
        await cluster.close()


def codec(cluster: Cluster) -> Codec:
    return codec_of(cluster.definition, cluster.nodes[0].pod.indexing)


def plan(cluster: Cluster, **members: Any) -> IndexPlan:
    """The plan of an IndexQuery."""
    raw = msgspec.Raw(msgspec.json.encode({"type": "IndexQuery", **members}))
    made = plan_of(decode_query(raw), codec(cluster))
    assert isinstance(made, IndexPlan)
    return made


async def reading_of(cluster: Cluster, isolation: Isolation) -> Reading:
    """The reading of a reader that begins now."""
    options = ReadOptions(isolation=isolation)
    return await prepared_reading(cluster.nodes[0].pod, options, cluster.definition.format)


def begin(cluster: Cluster, reading: Reading, **members: Any) -> RowScan:
    """Begins a scan of an index."""
    asked = plan(cluster, **members)
    return open_scan(reading, asked, Piece(ZERO), NdjsonRows(codec(cluster), asked), Metrics())


def rest_of(scan: RowScan, rows_max: int = 500) -> Found:
    """The remaining rows of a scan, read in steps."""
    rows = []
    while not scan.is_over:
        rows += [msgspec.json.decode(line) for line in scan.take(rows_max).data.splitlines()]
    scan.close()
    return [(row["indexKey"], row["key"], row["value"]) for row in rows]


async def ask(
    cluster: Cluster, isolation: Isolation = Isolation.READ_COMMITTED, **members: Any
) -> Found:
    """All rows that an IndexQuery returns."""
    return rest_of(begin(cluster, await reading_of(cluster, isolation), **members))


def found_in(rows: dict[str, str], index: str, lower: str | None, upper: str | None) -> Found:
    """The rows that the IndexQuery must return."""
    entries = [
        (value if index == "by-value" else value[0], key, value)
        for key, value in rows.items()
        if value or index == "by-value"
    ]
    low, high = (None if one is None else one.encode() for one in (lower, upper))
    inside = [
        one
        for one in entries
        if (low is None or one[0].encode() >= low) and (high is None or one[0].encode() <= high)
    ]
    return sorted(inside, key=lambda one: (one[0].encode(), one[1]))


@dataclass
class Told:
    """A simple reference: committed rows, and staged rows over them."""

    random: Random
    rows: dict[str, str] = field(default_factory=dict)
    staged: dict[str, str] = field(default_factory=dict)
    chunks: list[Any] = field(default_factory=list)

    def puts(self) -> list[Put]:
        """Rows of a batch; some keys come twice."""
        some = [self.random.choice(KEYS) for _ in range(self.random.randrange(1, 25))]
        return [
            Put(key, None if self.random.random() < 0.25 else self._value(), number)
            for number, key in enumerate(some)
        ]

    def _value(self) -> bytes:
        return self.random.choice(VALUES).encode()


def applied(rows: dict[str, str], puts: list[Put]) -> dict[str, str]:
    """The rows after these puts."""
    after = dict(rows)
    for put in puts:
        after.pop(put.key.decode(), None)
        if put.value is not None:
            after[put.key.decode()] = put.value.decode()
    return after


async def check(cluster: Cluster, told: Told) -> None:
    """Readers of both isolations find the rows by every index, in both orders."""
    for isolation, rows in (
        (Isolation.READ_COMMITTED, told.rows),
        (Isolation.READ_UNCOMMITTED, told.staged if told.chunks else told.rows),
    ):
        reading = await reading_of(cluster, isolation)
        check_index(reading.view, cluster.nodes[0].pod.indexing)
        for index in ByValue.indexes:
            low, high = sorted(told.random.sample(VALUES, 2), key=str.encode)
            for lower, upper in ((None, None), (low, None), (None, high), (low, high)):
                wanted = found_in(rows, index, lower, upper)
                bounds = {"index": index, "lower": lower, "upper": upper}
                assert await ask(cluster, isolation, **bounds) == wanted
                backward = await ask(cluster, isolation, order="DESCENDING", **bounds)
                assert backward == wanted[::-1]


async def go_on(cluster: Cluster, told: Told) -> None:
    replica = only_replica(cluster)
    match told.random.randrange(8):
        case 0 | 1 | 2:
            puts = told.puts()
            base = told.staged if told.chunks else told.rows
            told.staged = applied(base, puts)
            chunk = f"1.t{len(told.chunks)}a0-0.0"
            told.chunks.append(await stage_rows(replica, puts, batch=cluster.batch, chunk=chunk))
        case 3 | 4 | 5:
            chunks, is_replacing = tuple(told.chunks), told.random.random() < 0.2
            if is_replacing and told.chunks:
                # Staged rows that replace all rows are shown beside the old rows until the commit.
                return
            await commit_chunks(
                replica, chunks, batch=cluster.batch, position={}, replace=is_replacing
            )
            cluster.batch += 1
            told.rows = told.staged if chunks else {} if is_replacing else told.rows
            told.chunks = []
        case 6:
            await cluster.stop_pod(0)
            await cluster.start_pod(0)
        case 7:
            target = told.random.choice(["Plain", "Timestamped", "TimestampedWithHeaders"])
            await change_format(cluster, target)
            if told.random.random() < 0.5:
                await replica.format_change.move_rows(7)


@pytest.mark.parametrize("seed", range(4))
async def test_index_and_rows_are_one_whatever_happens(seed: int, cluster: Cluster) -> None:
    told = Told(Random(seed))
    for _ in range(40):
        await go_on(cluster, told)
        await check(cluster, told)
    await move_all(only_replica(cluster))
    await check(cluster, told)


async def put(cluster: Cluster, rows: dict[str, str | None], *, replace: bool = False) -> None:
    puts = [Put(k.encode(), None if v is None else v.encode(), 1) for k, v in rows.items()]
    replica, batch = only_replica(cluster), cluster.batch
    await commit_rows(replica, puts, batch=batch, position={}, replace=replace)
    cluster.batch += 1


async def test_a_scan_keeps_the_state_that_it_began_with(cluster: Cluster) -> None:
    rows: dict[str, str | None] = {f"k{number:04}": "abcd"[number % 4] for number in range(900)}
    await put(cluster, rows)
    committed = await reading_of(cluster, Isolation.READ_COMMITTED)
    scans = [
        begin(cluster, committed, index="by-value", order=one) for one in ("ANY", "DESCENDING")
    ]
    wanted = found_in({k: v for k, v in rows.items() if v}, "by-value", None, None)
    firsts = [
        [msgspec.json.decode(line)["key"] for line in scan.take(10).data.splitlines()]
        for scan in scans
    ]
    assert firsts == [[key for _, key, _ in some] for some in (wanted[:10], wanted[:-11:-1])]
    await put(cluster, {"k0001": None, "k0002": "new"})
    await put(cluster, {"k0001": "other"}, replace=True)
    await put(cluster, dict.fromkeys(rows))
    assert rest_of(scans[0]) == wanted[10:]
    assert rest_of(scans[1]) == wanted[:-10][::-1]


async def test_a_cursor_goes_on_behind_the_last_row(cluster: Cluster) -> None:
    rows: dict[str, str | None] = {f"k{number:02}": "ab"[number % 2] for number in range(20)}
    await put(cluster, rows)
    for order in ("ASCENDING", "DESCENDING"):
        asked = plan(cluster, index="by-first", order=order)
        found: Found = []
        last_key: bytes | None = None
        for _ in range(20):
            reading = await reading_of(cluster, Isolation.READ_COMMITTED)
            encoder = NdjsonRows(codec(cluster), asked)
            scan = open_scan(reading, asked, Piece(ZERO, last_key), encoder, Metrics())
            (line,) = scan.take(1).data.splitlines()
            last_key = scan.last_key
            scan.close()
            row = msgspec.json.decode(line)
            found.append((row["indexKey"], row["key"], row["value"]))
        wanted = found_in({k: v for k, v in rows.items() if v}, "by-first", None, None)
        assert found == (wanted if order == "ASCENDING" else wanted[::-1])


# --- Another version


async def restart(cluster: Cluster, extensions: Extensions) -> None:
    """Restarts the pod's process with other packages."""
    await cluster.stop_pod(0)
    cluster.extensions = extensions
    await cluster.start_pod(0)


async def test_another_version_makes_the_index_anew(cluster: Cluster) -> None:
    await put(cluster, {f"k{number:04}": f"{number:04}" for number in range(1234)})
    await change_format(cluster, "Plain")
    await only_replica(cluster).format_change.move_rows(200)
    await restart(cluster, NEXT_BY_VALUE)
    await wait_until_async(lambda: only_replica(cluster).view is not None)
    view = only_replica(cluster).view
    assert view is not None
    check_index(view, cluster.nodes[0].pod.indexing)
    assert len(await ask(cluster, index="by-first", lower="7", upper="7")) == 123
    assert await ask(cluster, index="by-value") == []
    names = only_replica(cluster).engine.families()
    assert len([name for name in names if name.startswith("index-")]) == 1
    await put(cluster, {"k0007": "0008"})
    assert len(await ask(cluster, index="by-first", lower="7", upper="7")) == 122
    # Back to the first version, whose index rows must not be used again.
    await restart(cluster, BY_VALUE)
    await wait_until_async(lambda: only_replica(cluster).view is not None)
    assert await ask(cluster, index="by-value", lower="0007", upper="0008") == [
        ("0008", "k0007", "0008"),
        ("0008", "k0008", "0008"),
    ]


async def test_what_is_told_while_an_index_is_made(cluster: Cluster) -> None:
    await put(cluster, {f"k{number:04}": "x" for number in range(1000)})
    await restart(cluster, NEXT_BY_VALUE)
    (report,) = cluster.nodes[0].pod.report().replicas
    assert (report.state, report.error) == ("opening", None)
    assert report.index is not None
    assert not cluster.nodes[0].pod.is_ready
    await wait_until_async(lambda: cluster.nodes[0].pod.is_ready)
    (report,) = cluster.nodes[0].pod.report().replicas
    assert (report.state, report.index) == ("serving", None)


async def test_a_version_that_fails_at_a_row_says_so_and_goes_on_when_it_is_mended(
    cluster: Cluster,
) -> None:
    await put(cluster, {f"k{number:04}": f"{number}" for number in range(500)})

    class Failing(NextByValue):
        def index_keys(self, key: Any, value: Any) -> Iterable[tuple[str, Any]]:
            if value == "321":
                raise ValueError("no luck")
            return super().index_keys(key, value)

    await restart(cluster, Extensions(stores={"ByValue": Failing}))
    replica = only_replica(cluster)
    await wait_until_async(lambda: replica.failure is not None)
    (report,) = cluster.nodes[0].pod.report().replicas
    assert (report.state, replica.view) == ("failed", None)
    assert "ByValue (version 2) failed at the row" in str(report.error)
    assert "k0321" not in str(report.error)
    assert "the row of key 'k0321': ValueError: no luck" in str(report.detail)
    await restart(cluster, NEXT_BY_VALUE)
    await wait_until_async(lambda: only_replica(cluster).view is not None)
    view = only_replica(cluster).view
    assert view is not None
    check_index(view, cluster.nodes[0].pod.indexing)


# --- Failures


def failing_at(value: str) -> Extensions:
    """The type with the same version, and a bug."""

    def make(options: Any, store: Any) -> ByValue:
        return ByValue({"fails_at": value}, store)

    return Extensions(stores={"ByValue": make})


@pytest.mark.parametrize("rows", [1, 250])
async def test_a_type_that_fails_at_a_commit_stops_its_partition_and_loses_nothing(
    rows: int, cluster: Cluster
) -> None:
    await put(cluster, {"old": "a"})
    await restart(cluster, failing_at("bad"))
    puts = [Put(f"k{number:04}".encode(), b"b", 1) for number in range(rows)]
    puts[-1] = replace(puts[-1], value=b"bad")
    replica = only_replica(cluster)
    chunk = await stage_rows(replica, puts, batch=cluster.batch, chunk=f"1.{cluster.batch}.0")
    with pytest.raises(StoreTypeFailedError, match="ValueError"):
        await commit_chunks(replica, (chunk,), batch=cluster.batch, position={})
    assert await ask(cluster, index="by-value") == [("a", "old", "a")]
    with pytest.raises(StoreTypeFailedError):
        await stage_rows(replica, [Put(b"x", b"x", 1)], batch=9, chunk="1.9.0")
    (report,) = cluster.nodes[0].pod.report().replicas
    assert report.state == "failed"
    assert "no luck with bad" in str(report.detail)
    # The package still has the bug; rows of whole commits are still readable.
    await restart(cluster, failing_at("bad"))
    assert only_replica(cluster).failure is not None
    if rows == 1:
        assert await ask(cluster, index="by-value") == [("a", "old", "a")]
    else:
        assert only_replica(cluster).view is None, "half of it is written"
    await restart(cluster, BY_VALUE)
    view = only_replica(cluster).view
    assert view is not None
    check_index(view, cluster.nodes[0].pod.indexing)
    assert len(await ask(cluster, index="by-value")) == rows + 1
    last = only_replica(cluster).machine.participant.last[WRITER]
    assert last.batch == cluster.batch


async def test_a_pod_without_the_package_touches_nothing(cluster: Cluster) -> None:
    await put(cluster, {"a": "1", "b": "2"})
    before = dict(only_replica(cluster).engine.scan(META))
    families = only_replica(cluster).engine.families()
    await restart(cluster, Extensions())
    replica = only_replica(cluster)
    assert "no package in this pod has the store type 'ByValue'" in str(replica.failure)
    assert replica.view is None
    assert (dict(replica.engine.scan(META)), replica.engine.families()) == (before, families)
    await restart(cluster, BY_VALUE)
    assert await ask(cluster, index="by-value", lower="2") == [("2", "b", "2")]


async def test_a_type_that_changed_its_mind_in_silence_is_found_out(cluster: Cluster) -> None:
    class Silent(NextByValue):
        version = 1

    await put(cluster, {"a": "12", "b": "34"})
    await restart(cluster, Extensions(stores={"ByValue": Silent}))
    await put(cluster, {"a": None})
    with pytest.raises(StoreError, match=r"Raise the type's version"):
        await ask(cluster, index="by-first")
