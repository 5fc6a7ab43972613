"""`Store` and `AsyncStore` against real pods: one suite for both."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from qss_client import ReadOptions, RetryLimits, Row
from qss_client.reads.requests import PAGE_ROWS
from qss_core.errors import (
    DeadlineExceededError,
    MalformedRequestError,
    NotUpToBoundError,
    RangeReversedError,
    StoreError,
    StoreNotFoundError,
    UnknownQueryTypeError,
    UnreachableError,
)
from qss_core.model import Partitioner
from qss_core.positions import Position
from qss_store.http.server import make_runner
from qss_store.runtime.settings import Settings
from qss_testing.clients.clients import AnyClient
from qss_testing.pods.pod_process import PodCluster
from qss_testing.pods.ports import port_of
from qss_testing.pods.timed_stores import StartCluster
from qss_testing.writers.writer import Record, Writer, write_values

Connect = Callable[..., Awaitable[AnyClient]]
TINY = RetryLimits(deadline_s=0.0)
LETTERS = [f"{letter}{number}" for letter in "abc" for number in range(30)]
STRANGE = ["", ".", "..", "a/b", "/", "%2F", "a%20b", "a b", "a+b", "?x=1#y", "ä\U0001f600", "\x00",
           "x" * 3000, "\n", '"', "\\"]  # fmt: skip


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PodCluster]:
    with PodCluster(tmp_path_factory.mktemp("pods"), pods=3, partitions=12) as cluster:
        values = {key: {"n": number} for number, key in enumerate([*LETTERS, *STRANGE])}
        write_values(cluster.url, cluster.store, values)
        yield cluster


@pytest.fixture(params=["sync", "async"])
async def connect(request: pytest.FixtureRequest, cluster: PodCluster) -> AsyncIterator[Connect]:
    """Makes clients, by default of the shared store, and closes them."""
    clients: list[AnyClient] = []

    async def make(url: str | None = None, store: str = "words", **options: Any) -> AnyClient:
        clients.append(AnyClient(request.param, url or cluster.url, store, **options))
        return clients[-1]

    yield make
    for client in clients:
        await client.close()


# --- Keys


async def test_a_key_is_there_with_its_value_and_time(connect: Connect) -> None:
    row = await (await connect()).get("a3")
    assert row is not None
    assert (row.key, row.value, row.headers) == ("a3", {"n": 3}, None)
    assert row.timestamp is not None


async def test_an_absent_key_is_none_and_its_state_has_a_position(connect: Connect) -> None:
    client = await connect()
    assert await client.get("absent") is None
    assert client.position.topics


@pytest.mark.parametrize("key", STRANGE, ids=[repr(key[:9]) for key in STRANGE])
async def test_a_key_may_be_any_text(connect: Connect, key: str) -> None:
    client = await connect()
    row = await client.get(key)
    assert row is not None
    assert (row.key, row.value) == (key, {"n": len(LETTERS) + STRANGE.index(key)})
    assert await client.get(key + "~") is None
    if key:
        assert [row.key for row in await client.range(key, key)] == [key]


async def test_many_keys_come_in_their_order_with_none_for_the_absent(connect: Connect) -> None:
    client = await connect()
    keys = ["b1", "absent", "", "a/b", "b1", *LETTERS * 12]
    rows = await client.get_many(keys)
    assert [row and row.key for row in rows] == [None if key == "absent" else key for key in keys]
    assert await client.get_many([]) == []


# --- Ranges


def keys(rows: list[Row]) -> list[Any]:
    return [row.key for row in rows]


async def test_a_range_has_both_ends(connect: Connect) -> None:
    client = await connect()
    expected = sorted(key for key in LETTERS if "a8" <= key <= "b1")
    assert sorted(keys(await client.range("a8", "b1"))) == expected
    above = [key for key in [*LETTERS, *STRANGE] if key.encode() >= b"c9"]
    assert sorted(keys(await client.range("c9"))) == sorted(above)
    assert sorted(keys(await client.range())) == sorted([*LETTERS, *STRANGE])
    assert await client.range("y", "z") == []


async def test_a_partition_comes_in_order_forwards_or_backwards(connect: Connect) -> None:
    client = await connect()
    forwards = keys(await client.range(partitions=[4]))
    assert forwards == sorted(forwards, key=str.encode)
    assert keys(await client.range(partitions=[4], order="DESCENDING")) == forwards[::-1]
    assert keys(await client.prefix("a", partitions=[4])) == [
        key for key in forwards if key.startswith("a")
    ]


async def test_a_prefix_is_of_the_bytes(connect: Connect) -> None:
    client = await connect()
    assert sorted(keys(await client.prefix("a1"))) == sorted(k for k in LETTERS if k[:2] == "a1")
    assert len(await client.prefix("")) == len(LETTERS) + len(STRANGE)


async def test_a_limit_is_a_limit(connect: Connect) -> None:
    client = await connect()
    for limit in (0, 1, 17):
        assert len(await client.range(limit=limit)) == limit
    assert len(await client.range("a1", "a1", limit=17)) == 1


async def test_ranges_of_long_keys_are_whole_and_in_order(
    connect: Connect, start_cluster: StartCluster
) -> None:
    """Their bounds and cursors fit into no request line."""
    # The store reads 256 KiB of rows at once, so a page has 8 rows, and ends within a partition.
    settings = Settings(answer_bytes_max=100_000)
    cluster = await start_cluster(3, engine="memory", settings=settings)
    prefix = "k" * 33_000
    await cluster.put_values({prefix + name: 1 for name in LETTERS})
    client = await connect(cluster.url())

    def expected(among: Callable[[str], bool], *, backwards: bool = False) -> list[str]:
        inside = sorted((prefix + name for name in LETTERS if among(name)), reverse=backwards)
        return sorted(inside, key=lambda key: cluster.partition_of(key.encode()))

    everything = expected(lambda _: True)
    assert keys(await client.range()) == everything
    assert keys(await client.prefix(prefix + "a")) == expected(lambda name: name[0] == "a")
    part = [key for key in everything if cluster.partition_of(key.encode()) == 2]
    assert len(part) > 16
    assert keys(await client.range(partitions=[2])) == part
    found = await client.range(prefix + "a1", prefix + "b9", order="DESCENDING", limit=30)
    assert keys(found) == expected(lambda name: "a1" <= name <= "b9", backwards=True)[:30]


async def test_a_range_that_is_not_read_to_its_end_may_be_left(connect: Connect) -> None:
    client = await connect()
    seen = 0
    async for _ in client.rows("range"):
        seen += 1
        if seen == 3:
            break
    assert await client.get("a3") is not None


async def test_a_range_upside_down_is_refused(connect: Connect) -> None:
    with pytest.raises(RangeReversedError):
        await (await connect()).range("b", "a")


async def test_pages_follow_each_other_without_a_gap_or_a_repeat(
    connect: Connect, tmp_path: Path
) -> None:
    count = 2 * PAGE_ROWS + 1
    with PodCluster(tmp_path, partitions=2) as large:
        write_values(large.url, large.store, {f"{number:05}": "x" * 100 for number in range(count)})
        client = await connect(large.url)
        expected = [f"{number:05}" for number in range(count)]
        assert sorted(keys(await client.range())) == expected
        backwards = await client.range("00001", "20000", order="DESCENDING", limit=PAGE_ROWS + 1)
        assert len(set(keys(backwards))) == PAGE_ROWS + 1


# --- IQv2


async def test_a_query_answers_for_each_partition(connect: Connect) -> None:
    client = await connect()
    result = await client.query("RangeQuery", lower="a", upper="b", partitions=[0, 5, 99])
    assert set(result.partition_results) == {0, 5, 99}
    there = result.partition_results[5]
    assert there.is_success
    assert (there.partition, there.served_by, there.role, there.epoch) == (
        5,
        "words-2",
        "active",
        1,
    )
    assert there.sequence == 1
    assert there.position == result.position
    assert [row["key"] for row in there.get_result()] == keys(
        await client.range("a", "b", partitions=[5])
    )
    failed = result.partition_results[99]
    assert failed.failure is not None
    assert failed.failure.code == "DOES_NOT_EXIST"
    with pytest.raises(StoreError, match="DOES_NOT_EXIST"):
        failed.get_result()


async def test_the_only_result_is_the_one_that_is_not_null(connect: Connect) -> None:
    client = await connect()
    found = await client.only("KeyQuery", key="a3")
    assert found is not None
    assert found.result["value"] == {"n": 3}
    assert await client.only("KeyQuery", key="absent") is None


async def test_two_results_are_no_only_result(connect: Connect) -> None:
    with pytest.raises(ValueError, match="12 partitions have a result"):
        await (await connect()).only("RangeQuery")


async def test_a_failure_is_not_hidden_by_a_result(connect: Connect) -> None:
    with pytest.raises(StoreError, match="DOES_NOT_EXIST"):
        await (await connect()).only("RangeQuery", partitions=[0, 99])


async def test_execution_info_is_there_when_asked_for(connect: Connect) -> None:
    client = await connect()
    result = await client.query("KeyQuery", key="a3", execution_info=True)
    assert all(one.execution_info for one in result.partition_results.values())
    result = await client.query("KeyQuery", key="a3")
    assert not any(one.execution_info for one in result.partition_results.values())


async def test_an_unknown_query_is_refused(connect: Connect) -> None:
    with pytest.raises(UnknownQueryTypeError):
        await (await connect()).query("KeysQuery", key="a")


async def test_entries_are_counted(connect: Connect) -> None:
    assert await (await connect()).count() == len(LETTERS) + len(STRANGE)


# --- Positions


async def test_another_client_that_is_given_the_position_sees_nothing_older(
    connect: Connect, tmp_path: Path
) -> None:
    with PodCluster(tmp_path, pods=2, partitions=4) as moving, Writer(moving.url, "words") as job:
        job.write([Record("k", 1)], position={"in": {"0": 1}})
        first, second = await connect(moving.url), await connect(moving.pods[1].query, limits=TINY)
        assert await first.get("k") is not None
        assert first.position.offset_of("in", 0) == 1

        ahead = ReadOptions(position_bound=Position.of({"in": {0: 2}}), timeout_s=30.0)
        with pytest.raises(NotUpToBoundError):
            await second.get("k", ahead)
        with pytest.raises(NotUpToBoundError):
            await second.get_many(["k"], ahead)
        with pytest.raises(NotUpToBoundError):
            await second.range(options=ahead)
        job.write([Record("k", 2)], position={"in": {"0": 2}})
        row = await second.get("k", ahead)
        assert row is not None
        assert row.value == 2
        assert second.position.offset_of("in", 0) == 2
        assert second.position.offset_of("@batch.test", 1) == 1

        await first.range()
        assert first.position == second.position
        assert await first.count(ReadOptions(position_bound=second.position)) >= 1


async def test_a_position_may_have_a_thousand_components(connect: Connect, tmp_path: Path) -> None:
    with PodCluster(tmp_path, partitions=2) as wide, Writer(wide.url, "words") as job:
        offsets = {str(number): 2**40 + number for number in range(1000)}
        job.write([Record("k", 1)], position={"in": offsets})
        client = await connect(wide.url)
        for _ in range(2):
            assert await client.get("k") is not None
            assert len(await client.range()) == 1
            assert len(await client.get_many(["k"])) == 1
            assert await client.only("KeyQuery", key="k") is not None
        assert client.position.component_count == 1001


# --- Other stores


async def test_a_row_may_have_headers_and_a_chosen_partition(
    connect: Connect, tmp_path: Path
) -> None:
    members: dict[str, Any] = {
        "format": "TimestampedWithHeaders",
        "partitioner": Partitioner.EXPLICIT,
    }
    with PodCluster(tmp_path, pods=2, partitions=4, key_serde="int64", **members) as chosen:
        with Writer(chosen.url, "words") as job:
            job.write([Record(7, "x", 5, (("h", b"\x00"), ("h", None)), partition=3)])
        client = await connect(chosen.url)
        row = await client.get(7, ReadOptions(partition=3))
        assert row is not None
        assert (row.headers, row.timestamp) == ((("h", "AA=="), ("h", None)), 5)
        assert await client.get(7, ReadOptions(partition=2)) is None
        with pytest.raises(MalformedRequestError, match="name the key's partition"):
            await client.get(7)
        with pytest.raises(MalformedRequestError):
            await client.get("seven", ReadOptions(partition=3))
        assert keys(await client.range(7, 8, partitions=[3])) == [7]


# --- Failures


async def test_an_unknown_store_is_told_at_once(connect: Connect) -> None:
    with pytest.raises(StoreNotFoundError, match="this pod serves store words"):
        await (await connect(store="word")).get("a")


@pytest.mark.parametrize("url", ["", "127.0.0.1:8080", "ftp://x", "http://", "words"])
async def test_a_wrong_url_is_refused(connect: Connect, url: str) -> None:
    with pytest.raises(MalformedRequestError, match="a URL like"):
        await connect(url or " ")


async def test_where_nobody_listens_the_error_says_so(connect: Connect) -> None:
    with pytest.raises(UnreachableError, match=r"\(http://127.0.0.1:1: connection refused\)"):
        await (await connect("http://127.0.0.1:1", limits=TINY)).get("a")


async def test_something_that_is_no_store_is_told(connect: Connect) -> None:
    async def hello(_: web.Request) -> web.Response:
        return web.Response(status=404, text="hello")

    app = web.Application()
    app.router.add_get("/{path:.*}", hello)
    runner = await make_runner(app, "127.0.0.1", 0)
    try:
        with pytest.raises(
            StoreError,
            match=r"answered \d+ and no problem document for \S+: is this the URL of a store",
        ):
            await (await connect(f"http://127.0.0.1:{port_of(runner)}")).get("a")
    finally:
        await runner.cleanup()


async def test_a_token_is_sent_with_every_request(connect: Connect) -> None:
    seen = []

    async def refuse(request: web.Request) -> web.Response:
        seen.append(request.headers.get("Authorization"))
        return web.Response(status=401)

    app = web.Application()
    app.router.add_get("/{path:.*}", refuse)
    runner = await make_runner(app, "127.0.0.1", 0)
    try:
        for token in ("secret", None):
            client = await connect(f"http://127.0.0.1:{port_of(runner)}", token=token)
            with pytest.raises(StoreError, match="401"):
                await client.get("a")
    finally:
        await runner.cleanup()
    assert seen == ["Bearer secret", None]


async def test_a_redirect_is_not_followed_and_carries_no_token(connect: Connect) -> None:
    seen = []

    async def redirect(request: web.Request) -> web.Response:
        seen.append(request.path)
        return web.Response(status=302, headers={"Location": "/elsewhere"})

    app = web.Application()
    app.router.add_get("/{path:.*}", redirect)
    runner = await make_runner(app, "127.0.0.1", 0)
    try:
        client = await connect(f"http://127.0.0.1:{port_of(runner)}", token="secret")
        with pytest.raises(StoreError, match="answered 302"):
            await client.get("a")
    finally:
        await runner.cleanup()
    assert seen == ["/state/instances/words"]


async def test_a_time_that_is_too_short_is_over(connect: Connect) -> None:
    with pytest.raises((DeadlineExceededError, UnreachableError)):
        await (await connect(limits=TINY)).range(options=ReadOptions(timeout_s=0.000_001))
