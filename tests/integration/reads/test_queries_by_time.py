"""Windows and sessions of all partitions by time: merged pages, complete or refused."""

import random  # noqa: TID251 seeded: the same rows at every run.
from collections.abc import Callable
from typing import Any

import pytest

from qss_core.model import Partitioner
from qss_core.positions import Position, encode_token
from qss_store.runtime.settings import Settings
from qss_testing.clients.http import NDJSON, Api
from qss_testing.pods.stores import Cluster, Put
from qss_testing.pods.timed_stores import (
    KEYS,
    SESSION,
    STARTS,
    WINDOW,
    StartCluster,
    by_time,
    pages,
    seen,
    session_puts,
    sessions_of,
    window_puts,
    windows_of,
)

MakeApi = Callable[..., Api]
WINDOWS = "/state/windows/words?orderBy=time"
SESSIONS = "/state/sessions/words?orderBy=time"
ROWS = window_puts()


async def filled(start_cluster: StartCluster, pods: int = 3, **members: Any) -> Cluster:
    cluster = await start_cluster(pods, **{"engine": "memory", **WINDOW, **members})
    await cluster.put(ROWS, {"in": {"0": 41}})
    return cluster


def wanted(cluster: Cluster, rows: list[Put], *, reverse: bool = False) -> list[Any]:
    return [seen(put) for put in by_time(cluster, rows, reverse=reverse)]


@pytest.mark.parametrize("accept", ["application/json", NDJSON])
@pytest.mark.parametrize("order", ["ASCENDING", "DESCENDING"])
@pytest.mark.parametrize("limit", [1, 7, 48, 100])
async def test_pages_of_any_size_from_any_pod_are_the_whole(
    start_cluster: StartCluster, api: MakeApi, accept: str, order: str, limit: int
) -> None:
    cluster = await filled(start_cluster)
    turn = iter(range(1000))
    path = f"{WINDOWS}&limit={limit}&order={order}"
    found = await pages(lambda: api(cluster, next(turn) % 3), path, accept)
    rows = [row for page in found for row in page]
    assert windows_of(rows) == wanted(cluster, ROWS, reverse=order == "DESCENDING")
    assert [len(page) for page in found[:-1]] == [limit] * (len(found) - 1), "full but the last"
    if limit >= len(ROWS):
        assert len(found) == 1, "a page that ends at its limit has nothing left"


@pytest.mark.parametrize("engine", ["rocksdb", "memory"])
@pytest.mark.parametrize("seed", range(3))
async def test_pages_of_random_rows_are_what_sorting_gives(
    start_cluster: StartCluster, api: MakeApi, engine: str, seed: int
) -> None:
    dice = random.Random(seed)
    rows = {
        (key, start): Put(key, b"1", 0, start=start)
        for key in (b"k%d" % dice.randrange(20) for _ in range(300))
        for start in [dice.randrange(0, 3_000_000, 50_000)]
    }
    cluster = await start_cluster(2, engine=engine, **WINDOW)
    await cluster.put(rows.values())
    first, last = sorted((dice.randrange(3_000_000), dice.randrange(3_000_000)))
    keys = sorted((b"k%d" % dice.randrange(20), b"k%d" % dice.randrange(20)))
    inside = [
        put for put in rows.values() if first <= put.start <= last and keys[0] <= put.key <= keys[1]
    ]
    for order in ("ASCENDING", "DESCENDING"):
        path = (
            f"{WINDOWS}&order={order}&limit={dice.randrange(1, 40)}&from={first}&to={last}"
            f"&keyFrom={keys[0].decode()}&keyTo={keys[1].decode()}"
        )
        found = await pages(lambda: api(cluster, dice.randrange(2)), path)
        given = [row for page in found for row in page]
        assert windows_of(given) == wanted(cluster, inside, reverse=order == "DESCENDING")


@pytest.mark.parametrize("order", ["ASCENDING", "DESCENDING"])
async def test_sessions_are_in_order_of_their_ends(
    start_cluster: StartCluster, api: MakeApi, order: str
) -> None:
    cluster = await start_cluster(3, engine="memory", **SESSION)
    rows = session_puts(KEYS, [(0, 5000), (0, 10), (10, 10), (7, 2_000_000)])
    await cluster.put(rows)
    found = await pages(lambda: api(cluster), f"{SESSIONS}&limit=5&order={order}")
    given = [row for page in found for row in page]
    assert sessions_of(given) == wanted(cluster, rows, reverse=order == "DESCENDING")


async def test_rows_of_duplicates_are_paged_one_by_one(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await start_cluster(2, engine="memory", retain_duplicates=True, **WINDOW)
    await cluster.put([Put(key, b"1", 0, start=5) for key in (b"a", b"b") for _ in range(3)])
    found = await pages(lambda: api(cluster, 1), f"{WINDOWS}&limit=1")
    given = [(row["key"], row["sequence"]) for page in found for row in page]
    assert [key for key, _ in given] == ["a"] * 3 + ["b"] * 3
    assert len(set(given)) == 6


@pytest.mark.parametrize("order", ["ASCENDING", "DESCENDING"])
@pytest.mark.parametrize("limit", [1, 2, 3, 5, 100])
async def test_rows_of_a_window_and_a_key_in_several_partitions_are_all_paged(
    start_cluster: StartCluster, api: MakeApi, order: str, limit: int
) -> None:
    """Where the writers choose partitions, a key may be in each of them."""
    cluster = await start_cluster(2, engine="memory", partitioner=Partitioner.EXPLICIT, **WINDOW)
    await cluster.put_into(
        {
            number: [
                Put(key, b"%d" % number, 0, start=start) for key in (b"a", b"b") for start in (5, 6)
            ]
            for number in range(4)
        }
    )
    turn = iter(range(1000))
    path = f"{WINDOWS}&limit={limit}&order={order}"
    found = await pages(lambda: api(cluster, next(turn) % 2), path)
    rows = [(row["windowStart"], row["key"], row["value"]) for page in found for row in page]
    each = sorted((start, key, number) for start in (5, 6) for key in "ab" for number in range(4))
    assert rows == (each[::-1] if order == "DESCENDING" else each)
    assert [len(page) for page in found[:-1]] == [limit] * (len(found) - 1), "full but the last"


async def test_a_page_says_where_each_partition_stood(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await filled(start_cluster)
    answer = (await api(cluster).get(f"{WINDOWS}&limit=4&executionInfo=true")).json()
    assert list(answer["partitions"]) == ["0", "1", "2", "3"]
    for number, one in answer["partitions"].items():
        assert one["position"] == {"@batch.test": {"0": 0}, "in": {"0": 41}}
        assert one["servedBy"] == f"words-{int(number) % 3}"
        assert any(line.startswith("scan: ") for line in one["executionInfo"])
    of_one = (await api(cluster).get(f"{WINDOWS}&partitions=2")).json()
    assert list(of_one["partitions"]) == ["2"]
    assert of_one["partitions"]["2"]["end"] is True


async def test_the_marks_of_a_stream_come_after_all_rows(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await filled(start_cluster)
    lines = (await api(cluster).get(f"{WINDOWS}&limit=5", Accept=NDJSON)).lines()
    assert ["partition" in line for line in lines] == [False] * 5 + [True] * 4
    assert len({line["cursor"] for line in lines[5:]}) == 1


async def test_pages_are_cut_by_bytes_and_stay_whole(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    settings = Settings(answer_bytes_max=2000)
    cluster = await start_cluster(2, engine="memory", settings=settings, **WINDOW)
    rows = [
        Put(put.key, b'"%b"' % (b"x" * (700 if number % 3 else 30)), 0, start=put.start)
        for number, put in enumerate(ROWS)
    ]
    await cluster.put(rows)
    for accept in ("application/json", NDJSON):
        found = await pages(lambda: api(cluster), f"{WINDOWS}&limit=40", accept)
        assert windows_of(row for page in found for row in page) == wanted(cluster, rows)
        assert len(found) > 10


async def test_while_a_partition_may_come_back_a_page_is_empty(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await filled(start_cluster)
    first = (await api(cluster).get(f"{WINDOWS}&limit=10")).json()
    await cluster.stop_pod(1)
    missing = (await api(cluster).get(f"{WINDOWS}&limit=10&cursor={first['cursor']}")).json()
    assert missing["rows"] == []
    assert missing["partitions"]["1"]["failure"]["reason"] == "UNREACHABLE"
    assert missing["partitions"]["0"]["end"] is False
    await cluster.start_pod(1)
    rest = (await api(cluster).get(f"{WINDOWS}&limit=100&cursor={missing['cursor']}")).json()
    rows = [*first["rows"], *rest["rows"]]
    assert windows_of(rows) == wanted(cluster, ROWS)


async def test_a_page_is_empty_while_a_bound_is_not_met(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await filled(start_cluster, pods=1, partitions=2)
    bound = encode_token(Position.of({"in": {0: 50}}))
    answer = (await api(cluster).get(f"{WINDOWS}&positionBound={bound}")).json()
    assert answer["rows"] == []
    assert {one["failure"]["reason"] for one in answer["partitions"].values()} == {
        "NOT_UP_TO_BOUND"
    }


async def test_a_partition_that_there_is_not_holds_nothing_up(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await filled(start_cluster)
    answer = (await api(cluster).get(f"{WINDOWS}&partitions=0,9")).json()
    assert answer["partitions"]["9"]["failure"]["reason"] == "DOES_NOT_EXIST"
    inside = [put for put in ROWS if cluster.partition_of(put.key) == 0]
    assert windows_of(answer["rows"]) == wanted(cluster, inside)
    assert answer["cursor"] is None


async def test_the_cursor_of_an_empty_page_is_of_what_may_come_back(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await filled(start_cluster, pods=2, partitions=2)
    first = (await api(cluster).get(f"{WINDOWS}&limit=10")).json()
    await cluster.stop_pod(1)
    for query in ("partitions=0,1,9", f"cursor={first['cursor']}"):
        missing = (await api(cluster).get(f"{WINDOWS}&limit=100&{query}")).json()
        assert missing["rows"] == []
        again = (await api(cluster).get(f"{WINDOWS}&cursor={missing['cursor']}")).json()
        assert sorted(again["partitions"]) == ["0", "1"]
    await cluster.start_pod(1)
    rest = (await api(cluster).get(f"{WINDOWS}&cursor={missing['cursor']}")).json()
    assert windows_of([*first["rows"], *rest["rows"]]) == wanted(cluster, ROWS)


async def test_a_row_that_cannot_be_read_fails_its_partition_alone(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await start_cluster(engine="memory", partitions=2, value_serde="int64", **WINDOW)
    good, bad = Put(b"c", bytes(8), 0, start=5), Put(b"a", b"four", 0, start=6)
    await cluster.put_into({0: [bad], 1: [good]})
    answer = (await api(cluster).get(WINDOWS)).json()
    assert windows_of(answer["rows"]) == [("c", 5, 0)]
    assert answer["partitions"]["0"]["failure"]["reason"] == "STORE_EXCEPTION"


async def test_a_page_that_takes_too_long_says_so(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await start_cluster(engine="memory", partitions=1, **WINDOW)
    await cluster.put([Put(b"k%05d" % number, b"1", 0, start=5) for number in range(4000)])
    answer = (await api(cluster).get(f"{WINDOWS}&timeout=0.000001")).json()
    assert answer["rows"] == []
    assert answer["partitions"]["0"]["failure"]["reason"] == "DEADLINE_EXCEEDED"


async def test_a_stream_has_a_limit(start_cluster: StartCluster, api: MakeApi) -> None:
    cluster = await filled(start_cluster, pods=1)
    answer = await api(cluster).get(WINDOWS, Accept=NDJSON)
    assert "limit" in answer.problem(400, "MALFORMED_REQUEST")["detail"]


async def test_json_has_a_thousand_rows_where_no_limit_is_given(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await start_cluster(2, engine="memory", **WINDOW)
    await cluster.put([Put(b"k%05d" % number, b"1", 0, start=5) for number in range(2500)])
    found = await pages(lambda: api(cluster), WINDOWS)
    assert [len(page) for page in found] == [1000, 1000, 500]


async def test_a_cursor_goes_on_in_no_older_state(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await filled(start_cluster, pods=2, partitions=2)
    first = (await api(cluster).get(f"{WINDOWS}&limit=10")).json()
    # The next page has rows after the last one, and none before it.
    await cluster.put([Put(b"b", b"9", 0, start=0), Put(b"b", b"9", 0, start=STARTS[-1] + 5)])
    rest = (await api(cluster, 1).get(f"{WINDOWS}&limit=100&cursor={first['cursor']}")).json()
    everything = windows_of([*first["rows"], *rest["rows"]])
    assert len(everything) == len(ROWS) + 1
    assert everything[-1] == ("b", STARTS[-1] + 5, 0)
    assert {one["sequence"] for one in rest["partitions"].values()} == {2}


async def test_other_partitions_than_the_cursors_are_refused(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await filled(start_cluster, pods=1)
    cursor = (await api(cluster).get(f"{WINDOWS}&limit=4")).json()["cursor"]
    answer = await api(cluster).get(f"{WINDOWS}&limit=4&partitions=0&cursor={cursor}")
    answer.problem(400, "MALFORMED_CURSOR")


@pytest.mark.parametrize("order", ["ASCENDING", "DESCENDING"])
@pytest.mark.parametrize(
    ("serde", "key"),
    [
        ("json", b'{\n"n":%d}'),  # Shown with a space in place of the line break.
        ("string", b"\xff%d"),  # Shown as the replacement character.
        ("uuid", b"0000000A-0000-0000-0000-0000000000%02d"),  # Shown in lower case.
    ],
)
async def test_keys_that_their_json_does_not_give_back_are_all_paged(
    start_cluster: StartCluster, api: MakeApi, serde: str, key: bytes, order: str
) -> None:
    members = {**WINDOW, "key_serde": serde}
    cluster = await start_cluster(2, engine="memory", **members)
    await cluster.put([Put(key % number, b"%d" % number, 0, start=5) for number in range(20)])
    found = await pages(lambda: api(cluster), f"{WINDOWS}&limit=3&order={order}")
    rows = [row for page in found for row in page]
    numbers = sorted(range(20), key=lambda number: key % number, reverse=order == "DESCENDING")
    assert [row["value"] for row in rows] == numbers
    assert all(
        row.keys() == {"key", "windowStart", "windowEnd", "value", "timestamp"} for row in rows
    )
