"""Point queries over HTTP, at the pod that has the key and at another pod."""

import base64
import re
from collections.abc import Awaitable, Callable
from hashlib import sha256
from urllib.parse import quote
from zlib import crc32

import pytest

from qss_core.model import Partitioner
from qss_core.positions import (
    TOKEN_BYTES_MAX,
    Position,
    decode_token,
    encode_token,
    grown_token_bytes,
)
from qss_core.serdes.registry import serde_of
from qss_testing.clients.http import Api
from qss_testing.pods.stores import Cluster, Put

StartCluster = Callable[..., Awaitable[Cluster]]
MakeApi = Callable[..., Api]
READ = {"in": {"0": 41}}


@pytest.mark.parametrize("engine", ["rocksdb", "memory"])
async def test_a_row_with_the_state_it_is_from(
    start_cluster: StartCluster, api: MakeApi, engine: str
) -> None:
    cluster = await start_cluster(engine=engine)
    await cluster.put_values({"a": {"n": 1}}, READ)
    answer = await api(cluster).get("/state/stores/words/a")
    assert answer.json() == {"key": "a", "value": {"n": 1}, "timestamp": 1000}
    partition = cluster.partition_of(b"a")
    assert answer.headers["Queryable-State-Partition"] == str(partition)
    assert answer.headers["Queryable-State-Served-By"] == "words-0"
    assert answer.headers["Queryable-State-Sequence"] == "1"
    position = decode_token(answer.headers["Queryable-State-Position"])
    assert position == Position.of({"in": {0: 41}, "@batch.test": {0: 0}})
    token = crc32(answer.headers["Queryable-State-Position"].encode())
    assert answer.headers["ETag"] == f'W/"store-1-{partition}-2-{token:08x}-Timestamped-json"'


async def test_the_longest_token_of_a_position_may_be_a_bound(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await start_cluster(2)
    names = [sha256(b"%d" % number).hexdigest() for number in range(1000)]
    bounds = [Position.of({name: {0: 1} for name in names[:n]}) for n in range(300, 1000, 5)]
    longest = [bound for bound in bounds if grown_token_bytes(bound) <= TOKEN_BYTES_MAX][-1]
    key = names[0]
    await cluster.put_values({key: 1}, longest.to_json())
    token = (await api(cluster).get(f"/state/stores/words/{key}")).headers[
        "Queryable-State-Position"
    ]
    assert TOKEN_BYTES_MAX * 0.7 < len(token) <= TOKEN_BYTES_MAX
    for ordinal in range(2):
        answer = await api(cluster, ordinal).get(f"/state/stores/words/{key}?positionBound={token}")
        assert answer.json()["value"] == 1


async def test_an_absent_key_is_told_from_an_absent_store_and_says_the_position(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await start_cluster()
    await cluster.put_values({"a": 1}, READ)
    absent = await api(cluster).get("/state/stores/words/b")
    absent.problem(404, "KEY_NOT_FOUND")
    assert decode_token(absent.headers["Queryable-State-Position"]).offset_of("in", 0) == 41
    assert "ETag" not in absent.headers
    (await api(cluster).get("/state/stores/birds/a")).problem(404, "STORE_NOT_FOUND")


async def test_a_deleted_key_is_absent_and_an_overwritten_one_is_new(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await start_cluster()
    await cluster.put_values({"a": 1, "b": 1})
    await cluster.put([Put(b"a", None), Put(b"b", b"2", 7)])
    (await api(cluster).get("/state/stores/words/a")).problem(404, "KEY_NOT_FOUND")
    row = (await api(cluster).get("/state/stores/words/b")).json()
    assert row == {"key": "b", "value": 2, "timestamp": 7}


@pytest.mark.parametrize(
    ("store_format", "members"),
    [
        ("Plain", {}),
        ("Timestamped", {"timestamp": 5}),
        (
            "TimestampedWithHeaders",
            {
                "timestamp": 5,
                "headers": [{"key": "h", "value": "eA=="}, {"key": "h", "value": None}],
            },
        ),
    ],
)
async def test_a_row_has_all_that_its_format_keeps(
    start_cluster: StartCluster, api: MakeApi, store_format: str, members: dict[str, object]
) -> None:
    cluster = await start_cluster(format=store_format)
    await cluster.put([Put(b"a", b'"v"', 5, (("h", b"x"), ("h", None)))])
    row = (await api(cluster).get("/state/stores/words/a")).json()
    assert row == {"key": "a", "value": "v", **members}


KEYS = ["a/b", "a%2Fb", "..a", "a b+c", "a?b#c&d", "\0", "a\0b", "ä€😀", "{x}", "%", "a\nb", "~"]


@pytest.mark.parametrize("text", KEYS)
@pytest.mark.parametrize("ordinal", [0, 1])
async def test_a_key_is_decoded_once_here_and_on_the_way_to_another_pod(
    start_cluster: StartCluster, api: MakeApi, text: str, ordinal: int
) -> None:
    cluster = await start_cluster(2, partitions=1, engine="memory")
    await cluster.put_values({text: 1})
    path = f"/state/stores/words/{quote(text, safe='')}"
    assert (await api(cluster, ordinal).get(path)).json()["key"] == text
    everything_escaped = "".join(f"%{byte:02x}" for byte in text.encode())
    path = f"/state/stores/words/{everything_escaped}"
    assert (await api(cluster, ordinal).get(path)).json()["key"] == text


async def test_what_looks_alike_is_another_key(start_cluster: StartCluster, api: MakeApi) -> None:
    cluster = await start_cluster(engine="memory")
    await cluster.put_values({"a/b": 1, "a%2Fb": 2, "a+b": 3, "a b": 4})
    for path, value in (("a%2Fb", 1), ("a%252Fb", 2), ("a+b", 3), ("a%20b", 4)):
        answer = await api(cluster).get(f"/state/stores/words/{path}")
        assert answer.json()["value"] == value, path


@pytest.mark.parametrize(
    ("serde", "key", "text"),
    [
        ("int32", -5, "-5"),
        ("int64", 2**40, str(2**40)),
        ("float64", 0.5, "0.5"),
        ("boolean", True, "true"),
        ("bytes", b"\x00\xff/", "AP8v"),
        ("list<string>", ["a", None], '["a", null]'),
        ("json", {"a": 1}, '{"a":1}'),
    ],
)
async def test_a_key_in_a_path_is_the_text_of_its_serde(
    start_cluster: StartCluster, api: MakeApi, serde: str, key: object, text: str
) -> None:
    cluster = await start_cluster(key_serde=serde, engine="memory")
    await cluster.put([Put(serde_of(serde).encode(key), b"1", 1000)])
    answer = await api(cluster).get(f"/state/stores/words/{quote(text, safe='')}")
    assert answer.json()["key"] == serde_of(serde).to_json(key)


async def test_bytes_come_raw_where_the_client_takes_them(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await start_cluster(2, partitions=1, value_serde="bytes", engine="memory")
    await cluster.put([Put(b"a", b"\x00\xff", 5)])
    for ordinal in (0, 1):
        raw = await api(cluster, ordinal).get(
            "/state/stores/words/a", Accept="application/octet-stream"
        )
        assert (raw.status, raw.media, raw.body) == (200, "application/octet-stream", b"\x00\xff")
        assert raw.headers["ETag"].endswith('-bytes"')
        shown = (await api(cluster, ordinal).get("/state/stores/words/a")).json()
        assert shown["value"] == base64.b64encode(b"\x00\xff").decode()


async def test_the_tag_of_a_state_that_was_lost_is_not_that_of_another_one(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    """As after a loss that a person accepted: the offsets of what was lost are given again."""
    lost = await start_cluster(partitions=1)
    await lost.put_values({"a": 1}, READ)
    tag = (await api(lost).get("/state/stores/words/a")).headers["ETag"]
    cluster = await start_cluster(partitions=1)
    await cluster.put_values({"a": 2}, {"in": {"0": 42}})
    answer = await api(cluster).get("/state/stores/words/a", If_None_Match=tag)
    assert answer.json()["value"] == 2


@pytest.mark.parametrize(
    "accept", ["application/octet-stream", "application/vnd.apache.arrow.stream", "text/html"]
)
async def test_what_is_not_served_is_not_acceptable(
    start_cluster: StartCluster, api: MakeApi, accept: str
) -> None:
    cluster = await start_cluster(engine="memory")
    await cluster.put_values({"a": 1})
    answer = await api(cluster).get("/state/stores/words/a", Accept=accept)
    assert answer.problem(406, "NOT_ACCEPTABLE")["details"] == {"offered": ["application/json"]}


@pytest.mark.parametrize("ordinal", [0, 1])
async def test_a_client_that_has_the_state_is_told_so(
    start_cluster: StartCluster, api: MakeApi, ordinal: int
) -> None:
    cluster = await start_cluster(2, partitions=1)
    await cluster.put_values({"a": 1})
    pod = api(cluster, ordinal)
    tag = (await pod.get("/state/stores/words/a")).headers["ETag"]
    for sent in (tag, f'"other", {tag}', "*", tag.removeprefix("W/")):
        same = await pod.get("/state/stores/words/a", If_None_Match=sent)
        assert (same.status, same.body) == (304, b"")
        assert same.headers["ETag"] == tag
        assert same.headers["Queryable-State-Sequence"] == "1"
    await cluster.put_values({"a": 2})
    changed = await pod.get("/state/stores/words/a", If_None_Match=tag)
    assert changed.json()["value"] == 2
    (await pod.get("/state/stores/words/b", If_None_Match="*")).problem(404, "KEY_NOT_FOUND")


async def test_the_same_state_has_the_same_tag_after_a_restart(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await start_cluster()
    await cluster.put_values({"a": 1}, READ)
    before = (await api(cluster).get("/state/stores/words/a")).headers
    await cluster.stop_pod(0)
    await cluster.start_pod(0)
    after = (await api(cluster).get("/state/stores/words/a")).headers
    for name in ("ETag", "Queryable-State-Position", "Queryable-State-Sequence"):
        assert after[name] == before[name]


@pytest.mark.parametrize("ordinal", [0, 1])
async def test_a_bound_is_met_or_not_reached(
    start_cluster: StartCluster, api: MakeApi, ordinal: int
) -> None:
    cluster = await start_cluster(2, partitions=1)
    await cluster.put_values({"a": 1}, READ)
    pod = api(cluster, ordinal)
    for offsets, met in (
        ({"in": {0: 41}}, True),
        ({"in": {0: 42}}, False),
        ({"in": {1: 0}}, False),
        ({"@batch.test": {0: 0}}, True),
        ({"@batch.test": {0: 1}}, False),
        ({"elsewhere": {0: 99}}, True),
    ):
        for active in ("false", "true"):
            bound = encode_token(Position.of(offsets))
            answer = await pod.get(
                f"/state/stores/words/a?positionBound={bound}&requireActive={active}"
            )
            if met:
                assert answer.json()["value"] == 1
            else:
                problem = answer.problem(503, "NOT_UP_TO_BOUND")
                assert problem["retryAfterMs"] == 50
                assert answer.headers["Retry-After"] == "1"
                assert next(iter(offsets)) in problem["detail"]


async def test_a_store_without_a_commit_meets_no_bound(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await start_cluster(engine="memory")
    bound = encode_token(Position.of({"elsewhere": {0: 0}}))
    answer = await api(cluster).get(f"/state/stores/words/a?positionBound={bound}")
    answer.problem(503, "NOT_UP_TO_BOUND")
    (await api(cluster).get("/state/stores/words/a")).problem(404, "KEY_NOT_FOUND")


async def test_a_partition_is_said_where_the_partitioner_is_explicit(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await start_cluster(2, partitioner=Partitioner.EXPLICIT, engine="memory")
    await cluster.put_into({3: [Put(b"a", b"1", 5)], 0: []})
    pod = api(cluster)
    assert (await pod.get("/state/stores/words/a?partition=3")).json()["value"] == 1
    (await pod.get("/state/stores/words/a?partition=0")).problem(404, "KEY_NOT_FOUND")
    (await pod.get("/state/stores/words/a")).problem(400, "MALFORMED_REQUEST")
    (await pod.get("/state/stores/words/a?partition=4")).problem(404, "DOES_NOT_EXIST")
    found = (await pod.get("/state/instance/words/a?partition=3")).json()
    assert (found["partition"], found["active"]["pod"]) == (3, "words-1")


async def test_execution_info_names_layers_and_nanoseconds(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await start_cluster(engine="memory")
    await cluster.put_values({"a": 1})
    row = (await api(cluster).get("/state/stores/words/a?executionInfo=true")).json()
    (line,) = row["executionInfo"]
    assert re.fullmatch(r"read: [0-9]+ ns, 1 rows scanned, 1 returned", line)


async def test_head_has_the_headers_and_no_body(start_cluster: StartCluster, api: MakeApi) -> None:
    cluster = await start_cluster(2, partitions=1, engine="memory")
    await cluster.put_values({"a": 1})
    for ordinal in (0, 1):
        answer = await api(cluster, ordinal).send("HEAD", "/state/stores/words/a", None, {})
        assert (answer.status, answer.body) == (200, b"")
        assert answer.headers["Queryable-State-Sequence"] == "1"
        whole = await api(cluster, ordinal).get("/state/stores/words/a")
        assert answer.headers["Content-Length"] == str(len(whole.body))
        answer = await api(cluster, ordinal).send("HEAD", "/state/stores/words/none", None, {})
        assert (answer.status, answer.body) == (404, b"")


async def test_a_value_that_is_not_of_the_stores_type_is_no_mistake_of_the_client(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await start_cluster(value_serde="int64", engine="memory")
    await cluster.put([Put(b"a", b"four", 5)])
    problem = (await api(cluster).get("/state/stores/words/a")).problem(500, "STORE_EXCEPTION")
    assert "int64" in problem["detail"]
