"""Ranges, prefixes, windows and sessions of many keys: the fast path answers as the ordinary way.

Each question is followed over all its pages, both ways. `make test` asks the same 60 drawn ones.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from random import Random  # noqa: TID251 seeded.
from typing import Any

import pytest

from qss_core.formats.values import Format
from qss_core.model import Isolation, StoreType
from qss_store.runtime.settings import Settings
from qss_testing.clients.packets import Connection, connected, get
from qss_testing.pods.stores import Cluster, Put, configuration

StartCluster = Callable[..., Awaitable[Cluster]]
KEYS, HOUR = 60, 3_600_000
TIMED = {"retention_ms": 1000 * HOUR}


@pytest.fixture
async def cluster(start_cluster: StartCluster) -> Cluster:
    cluster = await start_cluster()
    await cluster.put_values({f"k{n:02}": {"n": n} for n in range(KEYS)}, {"in": {"0": 5}})
    return cluster


@pytest.fixture
async def connection(cluster: Cluster) -> AsyncIterator[Connection]:
    async with connected(cluster) as connection:
        yield connection


async def both_ways(cluster: Cluster, connection: Connection, path: str) -> Any:
    """The document of an answer, which is the same both ways; the fast path gives the first."""
    cluster.fast_answers.clear()
    await connection.send(get(path))
    quick = await connection.answer()
    assert cluster.fast_answers == [True], path
    await connection.send(get(path, "X-Other: 1"))
    ordinary = await connection.answer()
    assert cluster.fast_answers == [True]
    assert quick == ordinary, path
    return json.loads(quick[2])


async def pages_of(cluster: Cluster, connection: Connection, path: str) -> list[list[Any]]:
    """The rows of each page, to the last one."""
    found = []
    document = await both_ways(cluster, connection, path)
    found.append(document["rows"])
    while document["cursor"] is not None:
        joint = "&" if "?" in path else "?"
        asked = f"{path}{joint}cursor={document['cursor']}"
        document = await both_ways(cluster, connection, asked)
        found.append(document["rows"])
    return found


def drawn(random: Random) -> tuple[str, list[str]]:
    """The path of a question without a limit, and its keys in the order of their names."""
    first, last = sorted(random.sample(range(KEYS), 2))
    order = random.choice(["", "&order=DESCENDING", "&order=ASCENDING"])
    asked, wanted = {
        "range": (f"from=k{first:02}&to=k{last:02}", range(first, last + 1)),
        "open": (f"from=k{first:02}", range(first, KEYS)),
        "prefix": (f"prefix=k{first // 10}", range(first // 10 * 10, first // 10 * 10 + 10)),
        "all": ("timeout=5", range(KEYS)),
        "none": ("from=x&to=y", range(0)),
    }[random.choice(["range", "range", "open", "prefix", "all", "none"])]
    return f"/state/stores/words?{asked}{order}", [f"k{n:02}" for n in wanted]


@pytest.mark.parametrize("seed", range(60))
async def test_every_page_of_a_range_is_the_ordinary_one(
    cluster: Cluster, connection: Connection, seed: int
) -> None:
    random = Random(seed)
    path, keys = drawn(random)
    limit = random.choice([None, 1, 2, 7, 30, KEYS, 1000])
    asked = path if limit is None else f"{path}&limit={limit}"
    pages = await pages_of(cluster, connection, asked)
    assert sorted(row["key"] for page in pages for row in page) == keys
    assert all(len(page) == limit for page in pages[:-1])


@pytest.mark.parametrize("isolation", ["READ_COMMITTED", "READ_UNCOMMITTED"])
@pytest.mark.parametrize(
    "store_format", [Format.Plain, Format.Timestamped, Format.TimestampedWithHeaders]
)
async def test_formats_and_isolation_are_the_ordinary_ones(
    start_cluster: StartCluster, store_format: Format, isolation: str
) -> None:
    cluster = await start_cluster(format=store_format, isolation=Isolation(isolation))
    await cluster.put_values({f"k{n:02}": {"n": n} for n in range(KEYS)}, {"in": {"0": 5}})
    async with connected(cluster) as connection:
        pages = await pages_of(cluster, connection, "/state/stores/words?limit=7")
    assert sum(map(len, pages)) == KEYS


@pytest.mark.parametrize(
    ("kind", "query"),
    [
        ("windows", "limit=4"),
        ("windows", "from=3600000&to=7200000&order=DESCENDING"),
        ("windows", "keyFrom=k1&keyTo=k2&limit=9"),
        ("sessions", "limit=7"),
    ],
)
async def test_windows_and_sessions_of_many_keys_are_the_ordinary_ones(
    start_cluster: StartCluster, kind: str, query: str
) -> None:
    of = StoreType.WINDOW if kind == "windows" else StoreType.SESSION
    cluster = await start_cluster(type=of, **TIMED)
    puts = [
        Put(f"k{key}".encode(), b'{"n": %d}' % n, n, start=n * HOUR, end=n * HOUR + 5)
        for key in range(6)
        for n in range(5)
    ]
    await cluster.put(puts, {"in": {"0": 5}})
    async with connected(cluster) as connection:
        pages = await pages_of(cluster, connection, f"/state/{kind}/words?{query}")
    assert pages[0]


@pytest.mark.parametrize(
    "path",
    [
        "/state/stores/words?limit=0",
        "/state/stores/words?limit=x",
        "/state/stores/words?from=z&to=a",
        "/state/stores/words?cursor=nothing",
        "/state/stores/words?unknown=1",
        "/state/stores/birds?limit=1",
        "/state/windows/words?limit=1",
    ],
)
async def test_a_wrong_question_is_refused_the_ordinary_way(
    cluster: Cluster, connection: Connection, path: str
) -> None:
    await connection.send(get(path))
    first, _, _ = await connection.answer()
    assert first.startswith((b"HTTP/1.1 400", b"HTTP/1.1 404"))
    assert cluster.fast_answers == [False]


async def test_more_rows_than_an_answer_at_once_has_go_the_ordinary_way(
    start_cluster: StartCluster,
) -> None:
    cluster = await start_cluster(partitions=1)
    await cluster.put_values({f"k{n:04}": "x" * 100 for n in range(1500)}, {"in": {"0": 5}})
    async with connected(cluster) as connection:
        for query, rows, is_quick in (
            ("limit=400", 400, True),
            ("limit=1001", 1001, False),
            ("limit=1000", 1000, False),  # Its bytes exceed the buffer of a connection.
        ):
            cluster.fast_answers.clear()
            await connection.send(get(f"/state/stores/words?{query}"))
            _, _, body = await connection.answer()
            assert len(json.loads(body)["rows"]) == rows
            assert cluster.fast_answers == [is_quick], query


async def test_a_search_among_many_rows_goes_the_ordinary_way(start_cluster: StartCluster) -> None:
    """A scan pauses behind 2 000 rows that nobody wants; a page does not end there."""
    cluster = await start_cluster(partitions=1, type=StoreType.WINDOW, **TIMED)
    puts = [
        Put(b"k%02d" % key, b"1", n, start=n * HOUR, end=n * HOUR + 5)
        for key in range(KEYS)
        for n in range(50)
    ]
    await cluster.put(puts, {"in": {"0": 5}})
    async with connected(cluster) as connection:
        await connection.send(get(f"/state/windows/words?from={49 * HOUR}&limit={KEYS}"))
        _, _, body = await connection.answer()
    document = json.loads(body)
    assert len(document["rows"]) == KEYS
    assert cluster.fast_answers == [False]


async def test_rows_of_another_pod_and_a_full_count_of_scans_go_the_ordinary_way(
    start_cluster: StartCluster,
) -> None:
    places = [configuration(partition, int(partition == 3)) for partition in range(4)]
    cluster = await start_cluster(2, configurations=places)
    await cluster.put_values({f"k{n:02}": n for n in range(KEYS)}, {"in": {"0": 5}})
    async with connected(cluster) as connection:
        await connection.send(get("/state/stores/words"))
        _, _, body = await connection.answer()
        assert len(json.loads(body)["rows"]) == KEYS
        assert cluster.fast_answers == [False]
        await both_ways(cluster, connection, "/state/stores/words?partitions=0,2")
    full = await start_cluster(settings=Settings(streams_max=0))
    async with connected(full) as connection:
        await connection.send(get("/state/stores/words"))
        first, _, _ = await connection.answer()
        assert first.startswith(b"HTTP/1.1 429")
