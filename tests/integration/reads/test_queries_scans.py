"""Ranges, prefixes and full scans over HTTP."""

from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote

import pytest

from qss_core.model import StoreId
from qss_core.positions import Position, encode_token
from qss_store.runtime.settings import Settings
from qss_testing.clients.http import NDJSON, Api
from qss_testing.pods.stores import Cluster, Put

StartCluster = Callable[..., Awaitable[Cluster]]
MakeApi = Callable[..., Api]
QUERY = "/state/query/words"
SCAN = "/state/stores/words"
KEYS = [f"{letter}{number:02}" for letter in "abc" for number in range(20)]


async def filled(start_cluster: StartCluster, pods: int = 3, **members: Any) -> Cluster:
    cluster = await start_cluster(pods, **members)
    await cluster.put_values({key: number for number, key in enumerate(KEYS)}, {"in": {"0": 41}})
    return cluster


def in_order(cluster: Cluster, keys: list[str], *, reverse: bool = False) -> list[str]:
    """Keys in the order of a scan: partition by partition, each in order."""
    return [
        key
        for partition in range(cluster.partitions)
        for key in sorted(keys, reverse=reverse)
        if cluster.partition_of(key.encode()) == partition
    ]


def keys_of(rows: list[Any]) -> list[str]:
    return [row["key"] for row in rows]


@pytest.mark.parametrize("engine", ["rocksdb", "memory"])
@pytest.mark.parametrize("order", ["ANY", "ASCENDING", "DESCENDING"])
@pytest.mark.parametrize(
    ("bounds", "wanted"),
    [
        ("", KEYS),
        ("from=b05", [key for key in KEYS if key >= "b05"]),
        ("to=b05", [key for key in KEYS if key <= "b05"]),
        ("from=a19&to=b01", ["a19", "b00", "b01"]),
        ("from=b05&to=b05", ["b05"]),
        ("from=b055&to=b056", []),
        ("prefix=b", [key for key in KEYS if key.startswith("b")]),
        ("prefix=b1", [key for key in KEYS if key.startswith("b1")]),
        ("prefix=", KEYS),
        ("prefix=x", []),
    ],
)
async def test_rows_come_partition_by_partition_in_key_order(
    start_cluster: StartCluster,
    api: MakeApi,
    engine: str,
    order: str,
    bounds: str,
    wanted: list[str],
) -> None:
    cluster = await filled(start_cluster, pods=1, engine=engine)
    rows = await api(cluster).rows(f"{SCAN}?{bounds}&order={order}".replace("?&", "?"))
    assert keys_of(rows) == in_order(cluster, wanted, reverse=order == "DESCENDING")


async def test_each_partition_says_where_its_rows_come_from(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await filled(start_cluster)
    answer = (await api(cluster).get(SCAN)).json()
    assert keys_of(answer["rows"]) == in_order(cluster, KEYS)
    assert answer["rows"][0].keys() == {"key", "value", "timestamp"}
    for number in range(4):
        assert answer["partitions"][str(number)] == {
            "end": True,
            "position": {"@batch.test": {"0": 0}, "in": {"0": 41}},
            "servedBy": f"words-{number % 3}",
            "role": "active",
            "epoch": 1,
            "sequence": 1,
            "streamTime": -1,
        }


async def test_a_stream_marks_the_end_of_each_partition(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await filled(start_cluster)
    lines = (await api(cluster, 1).get(SCAN, Accept=NDJSON)).lines()
    partition, seen = 0, []
    for line in lines:
        if "partition" not in line:
            assert cluster.partition_of(line["key"].encode()) == partition
            seen.append(line["key"])
            continue
        assert (line["partition"], line["end"]) == (partition, True)
        assert line["position"] == {"@batch.test": {"0": 0}, "in": {"0": 41}}
        assert line["servedBy"] == f"words-{partition % 3}"
        partition += 1
    assert seen == in_order(cluster, KEYS)
    assert partition == 4
    assert lines[-1]["cursor"] is None


async def test_only_the_partitions_that_are_named(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await filled(start_cluster)
    answer = (await api(cluster).get(f"{SCAN}?partitions=3,1,1")).json()
    assert list(answer["partitions"]) == ["1", "3"]
    wanted = [key for key in KEYS if cluster.partition_of(key.encode()) in (1, 3)]
    assert keys_of(answer["rows"]) == in_order(cluster, wanted)


async def test_a_partition_that_there_is_not_is_told_from_one_that_is_elsewhere(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await filled(start_cluster)
    answer = (await api(cluster).get(f"{SCAN}?partitions=0,1,9&scope=local")).json()
    assert answer["partitions"]["0"]["end"] is True
    elsewhere = answer["partitions"]["1"]["failure"]
    assert (elsewhere["reason"], elsewhere["active"]) == ("NOT_PRESENT", "words-1")
    assert answer["partitions"]["9"]["failure"]["reason"] == "DOES_NOT_EXIST"
    left = (await api(cluster).get(f"{SCAN}?cursor={answer['cursor']}")).json()
    assert list(left["partitions"]) == ["1"], "what there is not is not left to read"


@pytest.mark.parametrize("number", [9, 65_535, 65_536, 70_000, 2**40])
async def test_a_partition_that_there_is_not_is_told_in_the_first_page_of_any_query(
    start_cluster: StartCluster, api: MakeApi, number: int
) -> None:
    cluster = await filled(start_cluster)
    asked = {"query": {"type": "RangeQuery"}, "partitions": [0, number, 2]}
    whole = (await api(cluster).post(QUERY, asked)).json()
    assert list(whole["partitionResults"]) == ["0", "2", str(number)]
    cut = (await api(cluster).post(QUERY, {**asked, "limit": 1})).json()
    for answer in (whole, cut):
        failure = answer["partitionResults"][str(number)]["failure"]
        assert failure["reason"] == "DOES_NOT_EXIST"
    more = (await api(cluster).post(QUERY, {**asked, "cursor": cut["cursor"]})).json()
    results = [cut["partitionResults"]["0"], *more["partitionResults"].values()]
    rows = [row for one in results for row in one["result"]]
    assert rows == [row for name in "02" for row in whole["partitionResults"][name]["result"]]


# --- Pages


async def pages(
    pods: Callable[[], Api], path: str, accept: str = "*/*"
) -> list[tuple[list[Any], str | None]]:
    """All pages of a scan; each request goes to the next pod."""
    found: list[tuple[list[Any], str | None]] = []
    cursor: str | None = ""
    while cursor is not None:
        more = f"&cursor={cursor}" if cursor else ""
        answer = await pods().get(path + more, Accept=accept)
        if accept == NDJSON:
            lines = answer.lines()
            rows, cursor = [one for one in lines if "partition" not in one], lines[-1]["cursor"]
        else:
            rows, cursor = answer.json()["rows"], answer.json()["cursor"]
        found.append((rows, cursor))
    return found


@pytest.mark.parametrize("accept", ["application/json", NDJSON])
@pytest.mark.parametrize("order", ["ASCENDING", "DESCENDING"])
@pytest.mark.parametrize("limit", [1, 7, 59, 60, 61])
async def test_pages_of_any_size_from_any_pod_are_the_whole(
    start_cluster: StartCluster, api: MakeApi, accept: str, order: str, limit: int
) -> None:
    cluster = await filled(start_cluster, engine="memory")
    turn = iter(range(1000))
    found = await pages(
        lambda: api(cluster, next(turn) % 3), f"{SCAN}?limit={limit}&order={order}", accept
    )
    rows = [row for page, _ in found for row in page]
    assert keys_of(rows) == in_order(cluster, KEYS, reverse=order == "DESCENDING")
    assert all(len(page) <= limit for page, _ in found)
    if limit >= 60:
        assert len(found) == 1, "a scan that ends at its limit has nothing left"


async def test_a_cursor_survives_the_restart_of_its_pod(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await filled(start_cluster)
    first = (await api(cluster).get(f"{SCAN}?limit=25")).json()
    for ordinal in range(3):
        await cluster.stop_pod(ordinal)
    for ordinal in range(3):
        await cluster.start_pod(ordinal)
    rest = await api(cluster, 2).rows(f"{SCAN}?cursor={first['cursor']}")
    assert keys_of([*first["rows"], *rest]) == in_order(cluster, KEYS)


async def test_a_cursor_goes_on_in_the_state_of_now(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await filled(start_cluster, pods=1, partitions=1)
    first = (await api(cluster).get(f"{SCAN}?limit=20")).json()
    await cluster.put([Put(b"a00", None), Put(b"b00", None), Put(b"b000", b"1")])
    rest = await api(cluster).rows(f"{SCAN}?cursor={first['cursor']}")
    assert keys_of(rest) == ["b000", *KEYS[21:]]


async def test_rows_with_keys_of_any_bytes_go_on_behind_the_last(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await start_cluster(2, key_serde="bytes", partitions=2, engine="memory")
    keys = [b"", b"\x00", b"\x00\x00", b"\xff", b"\xff\xff", b"/", b"%2F", b"\xc3\x28"]
    await cluster.put([Put(key, b"1") for key in keys])
    for order in ("ASCENDING", "DESCENDING"):
        found = await pages(lambda: api(cluster), f"{SCAN}?limit=1&order={order}")
        assert len([row for page, _ in found for row in page]) == len(keys)


async def test_json_has_a_thousand_rows_where_no_limit_is_given(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await start_cluster(partitions=2)
    await cluster.put_values({f"{number:05}": number for number in range(2500)})
    found = await pages(lambda: api(cluster), SCAN + "?order=ANY")
    assert [len(page) for page, _ in found] == [1000, 1000, 500]
    stream = (await api(cluster).get(SCAN, Accept=NDJSON)).lines()
    assert len(stream) == 2502


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ("prefix=a", "MALFORMED_CURSOR"),
        ("order=DESCENDING", "MALFORMED_CURSOR"),
        ("from=a", "MALFORMED_CURSOR"),
        ("partitions=0", "MALFORMED_CURSOR"),
        ("limit=3", None),
        ("requireActive=true", None),
        ("timeout=5", None),
        ("partitions=0,1,2,3", None),
    ],
)
async def test_a_cursor_is_for_its_own_query_but_not_for_its_own_limits(
    start_cluster: StartCluster, api: MakeApi, change: str, code: str | None
) -> None:
    cluster = await filled(start_cluster, pods=1, engine="memory")
    cursor = (await api(cluster).get(f"{SCAN}?limit=5")).json()["cursor"]
    answer = await api(cluster).get(f"{SCAN}?cursor={cursor}&{change}")
    if code is None:
        assert answer.status == 200
    else:
        answer.problem(400, code)


async def test_a_cursor_of_a_store_that_was_made_anew_is_refused(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    old, new = [
        await filled(start_cluster, pods=1, store_id=StoreId(name), engine="memory")
        for name in ("old", "new")
    ]
    cursor = (await api(old).get(f"{SCAN}?limit=5")).json()["cursor"]
    (await api(new).get(f"{SCAN}?cursor={cursor}")).problem(400, "MALFORMED_CURSOR")


# --- Limits of an answer


async def test_an_answer_that_grows_too_large_ends_with_its_cursor(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    settings = Settings(answer_bytes_max=2000, stream_bytes_max=2000)
    cluster = await start_cluster(2, partitions=2, engine="memory", settings=settings)
    await cluster.put_values(dict.fromkeys(KEYS[:10], "x" * 200000))
    for accept in ("application/json", NDJSON):
        found = await pages(lambda: api(cluster), f"{SCAN}?order=ANY", accept)
        rows = [row for page, _ in found for row in page]
        assert keys_of(rows) == in_order(cluster, KEYS[:10])
        assert all(1 <= len(page) <= 2 for page, _ in found)


async def test_a_stream_that_takes_too_long_ends_with_its_cursor(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    settings = Settings(stream_max_s=1e-9)
    cluster = await filled(start_cluster, pods=1, engine="memory", settings=settings)
    lines = (await api(cluster).get(SCAN, Accept=NDJSON)).lines()
    assert lines[-1]["end"] is False
    assert lines[-1]["cursor"]


async def test_scans_over_the_limit_are_refused_for_now(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    settings = Settings(streams_max=0)
    cluster = await start_cluster(engine="memory", settings=settings)
    answer = await api(cluster).get(SCAN)
    assert answer.problem(429, "LIMIT_EXCEEDED")["retryAfterMs"] == 250
    assert answer.headers["Retry-After"] == "1"


# --- Bounds and failures by partition


async def test_a_bound_is_checked_in_each_partition(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await filled(start_cluster, pods=1, engine="memory")
    await cluster.put_into({0: [], 2: []}, {"in": {"0": 50}})
    bound = encode_token(Position.of({"in": {0: 50}}))
    answer = (await api(cluster).get(f"{SCAN}?positionBound={bound}")).json()
    for partition, one in answer["partitions"].items():
        if partition in "02":
            assert one["position"]["in"] == {"0": 50}
        else:
            assert one["failure"]["reason"] == "NOT_UP_TO_BOUND"
            assert one["failure"]["retryAfterMs"] == 50
    await cluster.put_into({1: [], 3: []}, {"in": {"0": 50}})
    rest = (
        await api(cluster).get(f"{SCAN}?positionBound={bound}&cursor={answer['cursor']}")
    ).json()
    assert sorted(rest["partitions"]) == ["1", "3"]
    assert rest["cursor"] is None


async def test_a_row_that_cannot_be_read_fails_its_partition_alone(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await start_cluster(partitions=2, value_serde="int64", engine="memory")
    await cluster.put_into({0: [Put(b"a", bytes(8)), Put(b"b", b"four")], 1: [Put(b"c", bytes(8))]})
    answer = (await api(cluster).get(SCAN)).json()
    assert keys_of(answer["rows"]) == ["c"], "no position is true of a part of partition 0"
    assert answer["partitions"]["0"]["failure"]["reason"] == "STORE_EXCEPTION"
    assert answer["partitions"]["1"]["end"] is True
    lines = (await api(cluster).get(SCAN, Accept=NDJSON)).lines()
    assert [line["failure"]["reason"] for line in lines if "failure" in line] == ["STORE_EXCEPTION"]


@pytest.mark.parametrize("serde", ["string", "json"])
async def test_values_are_spliced_as_they_were_stored(
    start_cluster: StartCluster, api: MakeApi, serde: str
) -> None:
    cluster = await start_cluster(key_serde=serde, partitions=1)
    key = b'{"k":  1}' if serde == "json" else b"k"
    await cluster.put([Put(key, b'{"b": 1.0, "a":1e2}', 5)])
    answer = await api(cluster).get(SCAN)
    assert b'"value":{"b": 1.0, "a":1e2}' in answer.body
    if serde == "json":
        assert b'"key":{"k":  1}' in answer.body
        path = f"{SCAN}/{quote(key.decode(), safe='')}"
        assert (await api(cluster).get(path)).status == 200


async def test_execution_info_counts_rows(start_cluster: StartCluster, api: MakeApi) -> None:
    cluster = await filled(start_cluster)
    answer = (await api(cluster).get(f"{SCAN}?executionInfo=true")).json()
    for one in answer["partitions"].values():
        assert any(
            line.startswith("scan: ") and line.endswith(" returned")
            for line in one["executionInfo"]
        )
