"""IQv2 requests, counts and batch gets over HTTP."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from qss_core.model import Partitioner
from qss_core.positions import Position, encode_token
from qss_store.runtime.settings import Settings
from qss_testing.clients.http import NDJSON, Api
from qss_testing.pods.stores import Cluster, Put

StartCluster = Callable[..., Awaitable[Cluster]]
MakeApi = Callable[..., Api]
QUERY = "/state/query/words"
GET = "/state/get/words"
KEYS = [f"k{number:02}" for number in range(20)]


async def filled(start_cluster: StartCluster, pods: int = 3, **members: Any) -> Cluster:
    cluster = await start_cluster(pods, engine="memory", **members)
    rows = [Put(key.encode(), b"%d" % number, 5, (("h", b"x"),)) for number, key in enumerate(KEYS)]
    await cluster.put(rows, {"in": {"0": 41}})
    return cluster


def of_partition(cluster: Cluster, partition: int) -> list[str]:
    return [key for key in KEYS if cluster.partition_of(key.encode()) == partition]


# --- IQv2


@pytest.mark.parametrize(
    ("kind", "members"),
    [
        ("KeyQuery", {}),
        ("TimestampedKeyQuery", {"timestamp": 5}),
        (
            "TimestampedKeyWithHeadersQuery",
            {"timestamp": 5, "headers": [{"key": "h", "value": "eA=="}]},
        ),
    ],
)
@pytest.mark.parametrize("ordinal", [0, 1, 2])
async def test_a_key_query_asks_the_keys_own_partition(
    start_cluster: StartCluster, api: MakeApi, kind: str, members: dict[str, Any], ordinal: int
) -> None:
    cluster = await filled(start_cluster, format="TimestampedWithHeaders")
    answer = await api(cluster, ordinal).query({"type": kind, "key": "k01"})
    partition = cluster.partition_of(b"k01")
    assert answer == {
        "partitionResults": {
            str(partition): {
                "result": {"key": "k01", "value": 1, **members},
                "position": {"@batch.test": {"0": 0}, "in": {"0": 41}},
                "servedBy": f"words-{partition % 3}",
                "role": "active",
                "epoch": 1,
                "sequence": 1,
                "streamTime": -1,
            }
        },
        "position": {"@batch.test": {"0": 0}, "in": {"0": 41}},
    }


async def test_an_absent_key_is_a_result_and_no_failure(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await filled(start_cluster)
    answer = await api(cluster).query({"type": "KeyQuery", "key": "none"}, partitions=[0, 1, 2, 3])
    assert len(answer["partitionResults"]) == 4
    for result in answer["partitionResults"].values():
        assert result["result"] is None
        assert result["sequence"] == 1


@pytest.mark.parametrize(
    ("kind", "members"),
    [
        ("RangeQuery", {"key", "value"}),
        ("TimestampedRangeQuery", {"key", "value", "timestamp"}),
        ("TimestampedRangeWithHeadersQuery", {"key", "value", "timestamp", "headers"}),
    ],
)
async def test_a_range_query_answers_by_partition(
    start_cluster: StartCluster, api: MakeApi, kind: str, members: set[str]
) -> None:
    cluster = await filled(start_cluster, format="TimestampedWithHeaders")
    query = {"type": kind, "lower": "k03", "upper": "k11", "order": "DESCENDING"}
    answer = await api(cluster).query(query)
    assert answer["cursor"] is None
    assert list(answer["partitionResults"]) == ["0", "1", "2", "3"]
    for partition, result in answer["partitionResults"].items():
        keys = [row["key"] for row in result["result"]]
        wanted = [key for key in of_partition(cluster, int(partition)) if "k03" <= key <= "k11"]
        assert keys == sorted(wanted, reverse=True)
        assert all(row.keys() == members for row in result["result"])
        assert result["end"] is True


async def test_a_prefix_query_and_a_stream_of_it(start_cluster: StartCluster, api: MakeApi) -> None:
    cluster = await filled(start_cluster)
    query = {"type": "PrefixQuery", "prefix": "k1"}
    answer = await api(cluster).query(query, partitions=[2])
    assert [row["key"] for row in answer["partitionResults"]["2"]["result"]] == [
        key for key in of_partition(cluster, 2) if key.startswith("k1")
    ]
    lines = (await api(cluster).post(QUERY, {"query": query}, Accept=NDJSON)).lines()
    assert sorted(line["key"] for line in lines if "key" in line) == KEYS[10:]
    assert [line["partition"] for line in lines if "partition" in line] == [0, 1, 2, 3]


async def test_pages_of_a_range_query(start_cluster: StartCluster, api: MakeApi) -> None:
    cluster = await filled(start_cluster)
    seen: list[str] = []
    cursor = None
    for turn in range(100):
        answer = await api(cluster, turn % 3).query(
            {"type": "RangeQuery", "lower": "k05"}, limit=3, cursor=cursor
        )
        for result in answer["partitionResults"].values():
            seen += [row["key"] for row in result["result"]]
        cursor = answer["cursor"]
        if cursor is None:
            break
    assert sorted(seen) == KEYS[5:]


async def test_counts(start_cluster: StartCluster, api: MakeApi) -> None:
    cluster = await filled(start_cluster)
    answer = await api(cluster).query({"type": "CountQuery"}, executionInfo=True)
    counts = {partition: one["result"] for partition, one in answer["partitionResults"].items()}
    assert counts == {str(number): len(of_partition(cluster, number)) for number in range(4)}
    layers = [line.split(":")[0] for line in answer["partitionResults"]["1"]["executionInfo"]]
    assert layers == ["open", "count", "peer words-1"]
    counted = (await api(cluster).get("/state/count/words")).json()
    assert counted["count"] == 20
    assert counted["partitions"].keys() == counts.keys()
    some = (await api(cluster).get("/state/count/words?partitions=1,2")).json()
    assert some["count"] == counts["1"] + counts["2"]


async def test_a_count_without_one_of_its_partitions_is_none(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await filled(start_cluster)
    counted = (await api(cluster).get("/state/count/words?scope=local")).json()
    assert counted["count"] is None
    assert counted["partitions"]["1"]["failure"]["reason"] == "NOT_PRESENT"
    assert counted["partitions"]["0"]["result"] == len(of_partition(cluster, 0))


@pytest.mark.parametrize("kind", ["KeyQuery", "RangeQuery", "CountQuery"])
async def test_each_partition_has_a_result_or_a_failure(
    start_cluster: StartCluster, api: MakeApi, kind: str
) -> None:
    cluster = await filled(start_cluster)
    query = {"type": kind, "key": "k01"} if kind == "KeyQuery" else {"type": kind}
    answer = (
        await api(cluster).post(f"{QUERY}?scope=local", {"query": query, "partitions": [0, 1, 9]})
    ).json()
    results = answer["partitionResults"]
    assert "result" in results["0"]
    assert results["1"]["failure"]["reason"] == "NOT_PRESENT"
    assert results["1"]["failure"]["active"] == "words-1"
    assert results["9"]["failure"]["reason"] == "DOES_NOT_EXIST"
    empty = await api(cluster).query(query, partitions=[])
    assert empty["partitionResults"] == {}, "as Kafka: nothing asked, nothing answered"


async def test_the_position_is_the_merge_of_all_partitions(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await filled(start_cluster)
    await cluster.put_into({0: []}, {"in": {"0": 50, "1": 1}})
    answer = await api(cluster).query({"type": "CountQuery"})
    assert answer["position"] == {"@batch.test": {"0": 1}, "in": {"0": 50, "1": 1}}


@pytest.mark.parametrize("as_token", [True, False])
@pytest.mark.parametrize("require_active", [True, False])
async def test_a_bound_is_checked_partition_by_partition(
    start_cluster: StartCluster, api: MakeApi, as_token: bool, require_active: bool
) -> None:
    cluster = await filled(start_cluster)
    await cluster.put_into({0: [], 1: []}, {"in": {"0": 50}})
    bound = Position.of({"in": {0: 50}})
    for query in ({"type": "CountQuery"}, {"type": "RangeQuery"}):
        answer = await api(cluster).query(
            query,
            positionBound=encode_token(bound) if as_token else bound.to_json(),
            requireActive=require_active,
        )
        reasons = {
            partition: one["failure"]["reason"]
            for partition, one in answer["partitionResults"].items()
            if "failure" in one
        }
        assert reasons == {"2": "NOT_UP_TO_BOUND", "3": "NOT_UP_TO_BOUND"}


@pytest.mark.parametrize(
    "kind",
    [
        "WindowKeyQuery",
        "WindowRangeQuery",
        "TimestampedWindowKeyWithHeadersQuery",
        "TimestampedWindowRangeWithHeadersQuery",
        "SessionQuery",
        "VersionedKeyQuery",
        "MultiVersionedKeyQuery",
        "MyOwnQuery",
        "TimestampedKeyWithHeadersQuery",
    ],
)
async def test_an_unknown_type_wins_over_an_unmet_bound(
    start_cluster: StartCluster, api: MakeApi, kind: str
) -> None:
    cluster = await filled(start_cluster, pods=1)
    body = {
        "query": {"type": kind, "key": "a"},
        "positionBound": {"in": {"0": 999}},
        "partitions": [99],
    }
    problem = (await api(cluster).post(QUERY, body)).problem(400, "UNKNOWN_QUERY_TYPE")
    assert kind in problem["detail"]


async def test_a_key_query_of_an_explicit_store_says_its_partition(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await start_cluster(2, partitioner=Partitioner.EXPLICIT, engine="memory")
    await cluster.put_into({3: [Put(b"a", b"1")], 1: []})
    query = {"type": "KeyQuery", "key": "a"}
    good: list[dict[str, Any]] = [{"partition": 3}, {"partitions": [3]}]
    for members in good:
        answer = await api(cluster).query(query, **members)
        assert answer["partitionResults"]["3"]["result"]["value"] == 1
    everywhere = await api(cluster).query(query, partitions=[0, 1, 2, 3])
    found = [one["result"] for one in everywhere["partitionResults"].values()]
    assert [row["value"] if row else None for row in found] == [None, None, None, 1]
    wrong: list[dict[str, Any]] = [{}, {"partition": 3, "partitions": [3]}]
    for members in wrong:
        answer = await api(cluster).post(QUERY, {"query": query, **members})
        answer.problem(400, "MALFORMED_REQUEST")


# --- Batch gets


@pytest.mark.parametrize("ordinal", [0, 1, 2])
async def test_each_key_of_a_batch_has_its_status(
    start_cluster: StartCluster, api: MakeApi, ordinal: int
) -> None:
    cluster = await filled(start_cluster)
    keys = ["k03", "none", "k00", "k03", "", "..", "k19"]
    answer = (await api(cluster, ordinal).post(GET, {"keys": keys})).json()
    assert [one["key"] for one in answer["results"]] == keys
    statuses = [one["status"] for one in answer["results"]]
    assert statuses == ["FOUND", "ABSENT", "FOUND", "FOUND", "ABSENT", "ABSENT", "FOUND"]
    assert [one.get("value") for one in answer["results"]] == [3, None, 0, 3, None, None, 19]
    for one in answer["results"]:
        partition = cluster.partition_of(one["key"].encode())
        assert one["partition"] == partition
        assert answer["partitions"][str(partition)]["servedBy"] == f"words-{partition % 3}"
        assert answer["partitions"][str(partition)]["position"]["in"] == {"0": 41}


async def test_keys_that_no_path_can_hold_go_by_a_batch(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await start_cluster(2, engine="memory")
    keys = ["", ".", "..", "k" * 5000, "\0"]
    await cluster.put_values(dict.fromkeys(keys, "v"))
    answer = (await api(cluster).post(GET, {"keys": keys})).json()
    assert [one["status"] for one in answer["results"]] == ["FOUND"] * 5
    rest = ["", ".", ".."]
    for key in rest:
        path = f"/state/stores/words/{key}"
        problem = (await api(cluster).get(path)).problem(400, "MALFORMED_REQUEST")
        assert "POST /state/get" in problem["detail"]
    long = await api(cluster).get(f"/state/stores/words/{'k' * 5000}")
    assert "POST /state/get" in long.problem(413, "LIMIT_EXCEEDED")["detail"]


async def test_a_partition_that_fails_fails_its_own_keys(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await filled(start_cluster)
    answer = (await api(cluster).post(f"{GET}?scope=local", {"keys": KEYS})).json()
    for one in answer["results"]:
        here = one["partition"] % 3 == 0
        assert one["status"] == ("FOUND" if here else "FAILED")
        if not here:
            assert one["failure"]["reason"] == "NOT_PRESENT"
            assert one["failure"]["active"] == f"words-{one['partition'] % 3}"


async def test_a_row_that_cannot_be_read_fails_its_own_key(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await start_cluster(2, partitions=2, value_serde="int64", engine="memory")
    await cluster.put([Put(b"a", bytes(8)), Put(b"b", b"four"), Put(b"c", bytes(8))])
    answer = (await api(cluster).post(GET, {"keys": ["a", "b", "c"]})).json()
    assert [one["status"] for one in answer["results"]] == ["FOUND", "FAILED", "FOUND"]
    assert answer["results"][1]["failure"]["reason"] == "STORE_EXCEPTION"


async def test_values_that_are_too_much_for_one_answer_are_asked_for_apart(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    settings = Settings(answer_bytes_max=1000)
    cluster = await start_cluster(partitions=1, engine="memory", settings=settings)
    await cluster.put_values(dict.fromkeys(KEYS, "x" * 600))
    answer = (await api(cluster).post(GET, {"keys": KEYS[:4]})).json()
    assert [one["status"] for one in answer["results"]] == ["FOUND", "FOUND", "FAILED", "FAILED"]
    assert answer["results"][3]["failure"]["reason"] == "LIMIT_EXCEEDED"


async def test_a_batch_takes_the_common_members(start_cluster: StartCluster, api: MakeApi) -> None:
    cluster = await filled(start_cluster)
    body = {"keys": ["k01"], "positionBound": {"in": {"0": 99}}, "requireActive": True}
    answer = (await api(cluster).post(GET, {**body, "executionInfo": True})).json()
    assert answer["results"][0]["failure"]["reason"] == "NOT_UP_TO_BOUND"
    info = (await api(cluster).post(GET, {"keys": ["k01"], "executionInfo": True})).json()
    assert all(one["executionInfo"] for one in info["partitions"].values())
    assert (await api(cluster).post(GET, {"keys": []})).json() == {"results": [], "partitions": {}}
