"""`Store` and `AsyncStore` of windows and sessions: one suite for both."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from qss_client import ReadOptions, RetryLimits, SessionRow, WindowRow
from qss_client.reads.requests import PAGE_ROWS
from qss_core.errors import (
    MalformedRequestError,
    NotUpToBoundError,
    RangeReversedError,
    UnknownQueryTypeError,
)
from qss_core.model import Partitioner
from qss_core.positions import Position
from qss_testing.clients.clients import AnyClient
from qss_testing.pods.stores import Cluster, Put
from qss_testing.pods.timed_stores import (
    KEYS,
    SESSION,
    SIZE_MS,
    WINDOW,
    StartCluster,
    by_row_key,
    by_time,
    seen,
    session_puts,
    window_puts,
)

Connect = Callable[..., Awaitable[AnyClient]]
BOUNDS = [(0, 0), (1000, 2000), (2500, 1_800_000)]
STRANGE = [b"", b".", b"..", b"a/b", b"%2F", b"a b", b"x" * 3000, b"\x00", "ä".encode()]
AT_ONCE = RetryLimits(deadline_s=0.0)


@pytest.fixture(params=["sync", "async"])
async def connect(request: pytest.FixtureRequest) -> AsyncIterator[Connect]:
    """Makes clients, and closes them."""
    clients: list[AnyClient] = []

    async def make(cluster: Cluster, **options: Any) -> AnyClient:
        clients.append(AnyClient(request.param, cluster.url(), "words", **options))
        return clients[-1]

    yield make
    for client in clients:
        await client.close()


def windows(found: list[Any]) -> list[tuple[str, int, int]]:
    assert all(row.end == row.start + SIZE_MS for row in found)
    return [(row.key, row.start, 0) for row in found]


def sessions(found: list[Any]) -> list[tuple[str, int, int]]:
    return [(row.key, row.start, row.end) for row in found]


async def test_windows_by_key_by_keys_and_by_time(
    start_cluster: StartCluster, connect: Connect
) -> None:
    cluster = await start_cluster(3, engine="memory", **WINDOW)
    rows = window_puts()
    await cluster.put(rows)
    client = await connect(cluster)
    of_key = await client.all("windows", "a\0b", from_=1000, to="1970-01-01T00:30:00Z")
    inside = [put for put in window_puts([b"a\0b"]) if 1000 <= put.start <= 1_800_000]
    assert windows(of_key) == [seen(put) for put in inside]
    backward = await client.all("windows", "a", order="DESCENDING", limit=2)
    assert [row.start for row in backward] == [1_900_000, 1_800_000]
    of_keys = await client.all("windows", key_from="a\0", key_to="b", to=0)
    inside = [put for put in rows if b"a\0" <= put.key <= b"b" and put.start == 0]
    assert windows(of_keys) == [seen(put) for put in by_row_key(cluster, inside)]
    timely = await client.all("windows", order_by="time", order="DESCENDING", limit=20)
    assert windows(timely) == [seen(put) for put in by_time(cluster, rows, reverse=True)[:20]]
    some = await client.all("windows", partitions=[1])
    assert {cluster.partition_of(row.key.encode()) for row in some} <= {1}


async def test_sessions_by_key_by_keys_and_by_time(
    start_cluster: StartCluster, connect: Connect
) -> None:
    cluster = await start_cluster(3, engine="memory", **SESSION)
    rows = session_puts(KEYS, BOUNDS)
    await cluster.put(rows)
    client = await connect(cluster)
    found = await client.all("sessions", "a", end_from=1500, start_to=1500)
    assert sessions(found) == [("a", 1000, 2000)]
    of_keys = await client.all("sessions", key_from="b", start_to=0, order="DESCENDING")
    inside = [put for put in rows if put.key >= b"b" and put.start == 0]
    assert sessions(of_keys) == [seen(put) for put in by_row_key(cluster, inside, reverse=True)]
    timely = await client.all("sessions", order_by="time")
    assert sessions(timely) == [seen(put) for put in by_time(cluster, rows)]


async def test_one_window_and_one_session(start_cluster: StartCluster, connect: Connect) -> None:
    cluster = await start_cluster(2, engine="memory", **WINDOW, format="TimestampedWithHeaders")
    await cluster.put([Put(b"a", b'{"n":1}', 7, (("h", b"x"),), start=1000)])
    client = await connect(cluster)
    row = await client.call("window", "a", 1000)
    assert row == WindowRow("a", 1000, 1000 + SIZE_MS, {"n": 1}, 7, (("h", "eA=="),))
    assert await client.call("window", "a", "1970-01-01T00:00:01Z") == row
    assert await client.call("window", "a", 1001) is None
    other = await start_cluster(2, engine="memory", **SESSION)
    await other.put([Put(b"a", b"1", start=1000, end=2000)])
    client = await connect(other)
    assert await client.call("session", "a", 1000, 2000) == SessionRow("a", 1000, 2000, 1)
    assert await client.call("session", "a", 1000, 2001) is None


async def test_keys_of_any_kind_are_found(start_cluster: StartCluster, connect: Connect) -> None:
    cluster = await start_cluster(2, engine="memory", **WINDOW)
    await cluster.put(window_puts(STRANGE, [1000, 2000]))
    client = await connect(cluster)
    other = await start_cluster(2, engine="memory", **SESSION)
    await other.put(session_puts(STRANGE, [(1000, 2000), (0, 2000), (500, 3000)]))
    of_sessions = await connect(other)
    for key in STRANGE:
        text = key.decode()
        assert [row.start for row in await client.all("windows", text)] == [1000, 2000]
        row = await client.call("window", text, 2000)
        assert (row.key, row.start) == (text, 2000)
        assert await client.call("window", text, 3000) is None
        assert len(await of_sessions.all("sessions", text)) == 3
        one = await of_sessions.call("session", text, 1000, "1970-01-01T00:00:02Z")
        assert (one.key, one.start, one.end) == (text, 1000, 2000)
        assert await of_sessions.call("session", text, 1000, 3000) is None


async def test_pages_are_read_as_they_are_needed(
    start_cluster: StartCluster, connect: Connect
) -> None:
    cluster = await start_cluster(2, engine="memory", **WINDOW)
    count = PAGE_ROWS + 500
    await cluster.put([Put(b"k%05d" % number, b"1", 0, start=number) for number in range(count)])
    client = await connect(cluster)
    assert len(await client.all("windows")) == count
    starts = [row.start for row in await client.all("windows", order_by="time")]
    assert starts == list(range(count))


async def test_duplicates_are_rows_with_sequences(
    start_cluster: StartCluster, connect: Connect
) -> None:
    cluster = await start_cluster(engine="memory", retain_duplicates=True, **WINDOW)
    await cluster.put([Put(key, b"1", 0, start=5) for key in (b"a", b"") for _ in range(2)])
    client = await connect(cluster)
    rows = await client.all("windows", "a")
    assert len({row.sequence for row in rows}) == 2
    for key in ("a", ""):
        with pytest.raises(UnknownQueryTypeError):
            await client.call("window", key, 5)


async def test_a_writer_that_chooses_partitions(
    start_cluster: StartCluster, connect: Connect
) -> None:
    cluster = await start_cluster(2, engine="memory", partitioner=Partitioner.EXPLICIT, **SESSION)
    await cluster.put_into({3: session_puts([b"a", b""], [(1, 2)])})
    client = await connect(cluster)
    there = ReadOptions(partition=3)
    for key in ("a", ""):
        assert len(await client.all("sessions", key, options=there)) == 1
        assert await client.call("session", key, 1, 2, there) is not None
        with pytest.raises(MalformedRequestError, match="partition"):
            await client.all("sessions", key)


async def test_options_and_refusals_reach_the_caller(
    start_cluster: StartCluster, connect: Connect
) -> None:
    cluster = await start_cluster(2, engine="memory", **WINDOW)
    await cluster.put(window_puts(), {"in": {"0": 5}})
    client = await connect(cluster, limits=AT_ONCE)
    late = ReadOptions(position_bound=Position.of({"in": {0: 6}}))
    for order_by in ("key", "time"):
        with pytest.raises(NotUpToBoundError):
            await client.all("windows", order_by=order_by, options=late)
    with pytest.raises(NotUpToBoundError):
        await client.call("window", "a", 0, late)
    with pytest.raises(RangeReversedError):
        await client.all("windows", from_=2, to=1)
    with pytest.raises(MalformedRequestError, match="from"):
        await client.all("windows", from_="soon")
    for beside in ({"key_from": "a"}, {"order_by": "time"}, {"partitions": [0]}):
        with pytest.raises(MalformedRequestError, match="rows of one key"):
            await client.all("windows", "a", **beside)
    with pytest.raises(UnknownQueryTypeError, match="Session"):
        await client.all("sessions")


async def test_a_read_is_never_older_than_the_last(
    start_cluster: StartCluster, connect: Connect
) -> None:
    cluster = await start_cluster(2, engine="memory", **WINDOW)
    await cluster.put(window_puts(), {"in": {"0": 5}})
    client = await connect(cluster)
    await client.call("window", "a", 0)
    assert client.position.to_json()["in"] == {"0": 5}
