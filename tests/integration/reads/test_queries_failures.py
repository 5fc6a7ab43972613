"""Three pods and failures between them: each failure has its own reason."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from qss_core.errors import CorruptionError, NotActiveError
from qss_core.model import PartitionId
from qss_core.positions import Position, encode_token
from qss_core.wire.messages import encode, problem_of
from qss_testing.clients.http import NDJSON, Api
from qss_testing.fakes.strange_pods import (
    http_answer,
    leave_standby_behind,
    move_address,
    strange_pod,
)
from qss_testing.pods.stores import Cluster, configuration
from qss_testing.waiting import wait_until_async

StartCluster = Callable[..., Awaitable[Cluster]]
MakeApi = Callable[..., Api]
SCAN = "/state/stores/words"
PROBLEM = "application/problem+json"
VALUES = {f"k{number:02}": number for number in range(30)}
# By pod 0's assignment partition p is active on pod p.
SPREAD = [configuration(number, number) for number in range(3)]


async def spread(start_cluster: StartCluster) -> Cluster:
    """Partition p on pod p."""
    cluster = await start_cluster(3, partitions=3, engine="memory", configurations=SPREAD)
    await cluster.put_values(VALUES, {"in": {"0": 41}})
    return cluster


async def replicated(start_cluster: StartCluster) -> Cluster:
    """One partition with the same rows on pods 0 and 1, active on 0; pod 2 has nothing."""
    standby = configuration(0, 0, standbys=[1], epoch=3)
    cluster = await start_cluster(3, partitions=1, engine="memory", configurations=[standby])
    await cluster.until_level()
    await cluster.put_values(VALUES, {"in": {"0": 41}})
    await cluster.until_level()
    return cluster


def key_of(cluster: Cluster, partition: int) -> str:
    return next(key for key in VALUES if cluster.partition_of(key.encode()) == partition)


def reasons(answer: Any) -> dict[str, str]:
    return {
        partition: one["failure"]["reason"] if "failure" in one else "answered"
        for partition, one in answer.items()
    }


# --- A pod that is down


async def test_a_pod_that_is_down_fails_its_own_partitions(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await spread(start_cluster)
    await cluster.stop_pod(1)
    pod = api(cluster)
    expected = {"0": "answered", "1": "UNREACHABLE", "2": "answered"}
    scanned = (await pod.get(SCAN)).json()
    assert reasons(scanned["partitions"]) == expected
    assert {cluster.partition_of(row["key"].encode()) for row in scanned["rows"]} == {0, 2}
    for query in ({"type": "CountQuery"}, {"type": "RangeQuery"}):
        assert reasons((await pod.query(query))["partitionResults"]) == expected
    assert (await pod.get("/state/count/words")).json()["count"] is None
    batch = (await pod.post("/state/get/words", {"keys": list(VALUES)})).json()
    for one in batch["results"]:
        assert one["status"] == ("FAILED" if one["partition"] == 1 else "FOUND")
    lines = (await pod.get(SCAN, Accept=NDJSON)).lines()
    marks = {str(line["partition"]): line for line in lines if "partition" in line}
    assert reasons(marks) == expected
    assert [marks[number]["end"] for number in "012"] == [True, False, True]
    answer = await pod.get(f"{SCAN}/{key_of(cluster, 1)}")
    assert "words-1" in answer.problem(503, "UNREACHABLE")["detail"]
    assert answer.headers["Retry-After"] == "1"


async def test_the_cursor_goes_on_with_the_partitions_that_failed(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await spread(start_cluster)
    await cluster.stop_pod(1)
    for accept in ("application/json", NDJSON):
        answer = await api(cluster).get(SCAN, Accept=accept)
        cursor = (answer.lines()[-1] if accept == NDJSON else answer.json())["cursor"]
        assert reasons(
            (await api(cluster).get(f"{SCAN}?cursor={cursor}")).json()["partitions"]
        ) == {"1": "UNREACHABLE"}
        await cluster.start_pod(1)
        rest = await api(cluster).rows(f"{SCAN}?cursor={cursor}")
        assert [row["key"] for row in rest] == [
            key for key in VALUES if cluster.partition_of(key.encode()) == 1
        ]
        await cluster.stop_pod(1)


async def test_a_pod_that_does_not_answer_in_time(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await spread(start_cluster)
    async with strange_pod(None) as hanging:
        await move_address(cluster, 1, hanging.port)
        pod = api(cluster)
        answer = await pod.get(f"{SCAN}/{key_of(cluster, 1)}?timeout=0.1")
        assert "words-1" in answer.problem(504, "DEADLINE_EXCEEDED")["detail"]
        counted = (await pod.get("/state/count/words?timeout=2")).json()
        expected = {"0": "answered", "1": "DEADLINE_EXCEEDED", "2": "answered"}
        assert reasons(counted["partitions"]) == expected
        scanned = (await pod.get(f"{SCAN}?timeout=0.1&partitions=1")).json()
        assert reasons(scanned["partitions"]) == {"1": "DEADLINE_EXCEEDED"}
        assert scanned["cursor"]
        lines = (await pod.get(f"{SCAN}?timeout=2", Accept=NDJSON)).lines()
        marks = {str(line["partition"]): line for line in lines if "partition" in line}
        assert reasons(marks) == expected
        asked = [request.split(b" ")[1].decode() for request in hanging.requests]
        assert all("scope=local" in target for target in asked), "one hop, never more"
        batch = await pod.post("/state/get/words", {"keys": list(VALUES), "timeout": 2})
        found = {one["partition"]: one.get("failure") for one in batch.json()["results"]}
        assert found[1]["reason"] == "DEADLINE_EXCEEDED"
        assert found[0] is found[2] is None


@pytest.mark.parametrize(
    "said",
    [
        http_answer(200, "text/html", b"<p>hello"),
        http_answer(200, "application/json", b"{}"),
        http_answer(200, NDJSON, b"what\n"),
        http_answer(500, "text/plain", b"oh"),
        http_answer(200, NDJSON, b'{"partition":1}\n', length=99),
        http_answer(302, "text/plain", b""),
        b"220 smtp ready\r\n",
        b"",
    ],
)
async def test_whatever_a_pod_answers_the_others_are_answered(
    start_cluster: StartCluster, api: MakeApi, said: bytes
) -> None:
    cluster = await spread(start_cluster)
    async with strange_pod(said) as strange:
        await move_address(cluster, 1, strange.port)
        pod = api(cluster)
        for answered in (
            (await pod.get(f"{SCAN}?partitions=0,1,2")).json()["partitions"],
            (await pod.query({"type": "CountQuery"}))["partitionResults"],
            (await pod.post("/state/get/words", {"keys": list(VALUES)})).json()["partitions"],
        ):
            told = reasons(answered)
            assert (told["0"], told["2"]) == ("answered", "answered")
            assert told["1"] in ("STORE_EXCEPTION", "UNREACHABLE")


async def test_a_stream_that_breaks_off_goes_on_after_its_last_whole_row(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await spread(start_cluster)
    real_port = cluster.ports[1]
    keys = [key for key in VALUES if cluster.partition_of(key.encode()) == 1]
    rows = [{"key": key, "value": VALUES[key], "timestamp": 1000} for key in keys[:2]]
    sent = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows) + '{"key":"k'
    async with strange_pod(http_answer(200, NDJSON, sent.encode(), length=9999)) as breaking:
        await move_address(cluster, 1, breaking.port)
        lines = (await api(cluster).get(f"{SCAN}?partitions=1", Accept=NDJSON)).lines()
        document = (await api(cluster).get(f"{SCAN}?partitions=1")).json()
    await move_address(cluster, 1, real_port)
    assert [line.get("key") for line in lines] == [*keys[:2], None]
    assert lines[-1]["failure"]["reason"] == "UNREACHABLE"
    rest = await api(cluster).rows(f"{SCAN}?cursor={lines[-1]['cursor']}")
    assert [row["key"] for row in rest] == keys[2:]
    # A document shows no rows without their position: the read starts again.
    assert document["rows"] == []
    again = await api(cluster).rows(f"{SCAN}?cursor={document['cursor']}")
    assert [row["key"] for row in again] == keys


# --- Standbys


async def test_a_standby_here_answers_unless_the_active_is_required(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await replicated(start_cluster)
    standby = api(cluster, 1)
    for path in (f"{SCAN}/k01", f"{SCAN}?prefix=k01", "/state/count/words"):
        assert await served_by(standby, path) == "words-1"
        sign = "&" if "?" in path else "?"
        assert await served_by(standby, f"{path}{sign}requireActive=true") == "words-0"
        refused = await standby.get(f"{path}{sign}requireActive=true&scope=local")
        if path.endswith("k01") and "?" not in path:
            problem = refused.problem(409, "NOT_ACTIVE")
            assert problem["details"] == {"partition": 0, "active": "words-0", "epoch": 3}
        else:
            assert reasons(refused.json()["partitions"]) == {"0": "NOT_ACTIVE"}


async def served_by(pod: Api, path: str) -> str:
    answer = await pod.get(path)
    if "Queryable-State-Served-By" in answer.headers:
        return answer.headers["Queryable-State-Served-By"]
    name: str = answer.json()["partitions"]["0"]["servedBy"]
    return name


@pytest.mark.parametrize("ordinal", [1, 2])
async def test_standbys_answer_while_the_active_is_down(
    start_cluster: StartCluster, api: MakeApi, ordinal: int
) -> None:
    cluster = await replicated(start_cluster)
    await cluster.stop_pod(0)
    pod = api(cluster, ordinal)
    assert (await pod.get(f"{SCAN}/k01")).json()["value"] == 1
    assert len(await pod.rows(SCAN)) == 30
    assert (await pod.get("/state/count/words")).json()["count"] == 30
    batch = (await pod.post("/state/get/words", {"keys": ["k01"]})).json()
    assert batch["partitions"]["0"]["servedBy"] == "words-1"
    (await pod.get(f"{SCAN}/k01?requireActive=true")).problem(503, "UNREACHABLE")


async def test_a_standby_that_is_behind_leaves_the_answer_to_the_active(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await start_cluster(
        2, partitions=1, engine="memory", configurations=[configuration(0, 0, standbys=[1])]
    )
    await leave_standby_behind(cluster)
    await cluster.put_values(VALUES, {"in": {"0": 41}})
    standby = api(cluster, 1)
    bound = f"positionBound={encode_token(Position.of({'in': {0: 41}}))}"
    (await standby.get(f"{SCAN}/k01")).problem(404, "KEY_NOT_FOUND")
    assert (await standby.get(f"{SCAN}/k01?{bound}")).json()["value"] == 1
    assert len(await standby.rows(f"{SCAN}?{bound}")) == 30
    assert (await standby.get(f"{SCAN}/k01?{bound}&scope=local")).problem(503, "NOT_UP_TO_BOUND")
    # Neither replica has reached the bound: that the active is behind says more than that it is
    # down.
    beyond = f"positionBound={encode_token(Position.of({'in': {0: 42}}))}"
    (await standby.get(f"{SCAN}/k01?{beyond}")).problem(503, "NOT_UP_TO_BOUND")
    await cluster.stop_pod(0)
    (await standby.get(f"{SCAN}/k01?{bound}")).problem(503, "NOT_UP_TO_BOUND")


async def test_a_standby_is_as_stale_as_the_time_since_it_was_level_with_its_active(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await replicated(start_cluster)
    standby = api(cluster, 1)
    assert await served_by(standby, f"{SCAN}/k01?maxStaleness=600&scope=local") == "words-1"
    answer = await standby.get(f"{SCAN}/k01?maxStaleness=0&scope=local")
    assert answer.problem(503, "TOO_STALE")["retryAfterMs"] == 250
    path = f"{SCAN}/k01?maxStaleness=0"
    assert await served_by(standby, path) == "words-0", "the active is never stale"
    scan = await standby.get(f"{SCAN}?maxStaleness=0&scope=local")
    assert reasons(scan.json()["partitions"]) == {"0": "TOO_STALE"}
    lags = (await standby.get("/state/lags/words")).json()["partitions"]
    assert 0 < lags["0"]["lagSeconds"] < 600


async def test_a_learner_does_not_answer(start_cluster: StartCluster, api: MakeApi) -> None:
    cluster = await start_cluster(
        2, partitions=1, engine="memory", configurations=[configuration(0, 0, learners=[1])]
    )
    await cluster.put_values(VALUES)
    answer = await api(cluster, 1).get(f"{SCAN}/k01?scope=local")
    assert answer.problem(421, "NOT_PRESENT")["details"]["active"] == "words-0"
    assert (await api(cluster, 1).get(f"{SCAN}/k01")).json()["value"] == 1


async def test_a_replica_that_is_being_opened_is_not_ready(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await replicated(start_cluster)
    opening = cluster.nodes[1].pod.registry.replicas[PartitionId(0)]
    view, opening.current_view.view = opening.current_view.view, None
    opening.health.failure = CorruptionError("block 7 is damaged")
    standby = api(cluster, 1)
    problem = (await standby.get(f"{SCAN}/k01?scope=local")).problem(503, "NOT_READY")
    assert "block 7 is damaged" in problem["detail"]
    scan = (await standby.get(f"{SCAN}?scope=local")).json()
    assert reasons(scan["partitions"]) == {"0": "NOT_READY"}
    assert await served_by(standby, f"{SCAN}/k01") == "words-0", "another replica answers"
    opening.current_view.view = view


# --- Changed routes


async def test_the_active_that_a_pod_names_is_asked_once(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await start_cluster(
        3, partitions=1, engine="memory", configurations=[configuration(0, 1)]
    )
    await cluster.put_values(VALUES)
    moved = NotActiveError("moved", partition=0, active="words-1", epoch=2)
    said = http_answer(409, PROBLEM, encode(problem_of(moved)))
    async with strange_pod(said) as former:
        await cluster.nodes[0].pod.assign(_with_port(cluster, 2, former.port))
        pod = api(cluster)
        assert (await pod.get(f"{SCAN}/k01?requireActive=true")).json()["value"] == 1
        assert len(await pod.rows(f"{SCAN}?requireActive=true")) == 30
        counted = await pod.query({"type": "CountQuery"}, requireActive=True)
        assert counted["partitionResults"]["0"]["result"] == 30
        assert len(former.requests) == 3
        await cluster.stop_pod(1)
        (await pod.get(f"{SCAN}/k01?requireActive=true")).problem(503, "UNREACHABLE")
        assert len(former.requests) == 4, "two that name each other are not asked in turn for ever"


def _with_port(cluster: Cluster, ordinal: int, port: int) -> Any:
    cluster.ports[ordinal] = port
    return cluster.assignment([configuration(0, ordinal, epoch=2)])


async def test_two_pods_that_take_each_other_for_the_active_do_not_loop(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await start_cluster(
        2, partitions=1, engine="memory", configurations=[configuration(0, 0)]
    )
    # Neither pod has the partition, and each believes that the other one has it.
    await cluster.nodes[0].pod.assign(cluster.assignment([configuration(0, 1, epoch=2)]))
    for ordinal in (0, 1):
        (await api(cluster, ordinal).get(f"{SCAN}/k01?requireActive=true")).problem(
            421, "NOT_PRESENT"
        )


# --- Forwarded parameters


async def test_the_callers_authorization_goes_along_and_nothing_else_of_his(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await spread(start_cluster)
    async with strange_pod(http_answer(500, "text/plain", b"")) as listening:
        await move_address(cluster, 1, listening.port)
        pod = api(cluster)
        headers = {"Authorization": "Bearer abc", "Cookie": "secret", "X_Mine": "1"}
        await pod.get(f"{SCAN}/{key_of(cluster, 1)}", **headers)
        await pod.get(f"{SCAN}?partitions=1", **headers)
        await pod.get(f"{SCAN}?partitions=1", **{**headers, "Accept": NDJSON})
        await pod.get("/state/count/words?partitions=1", **headers)
        await pod.post("/state/get/words", {"keys": [key_of(cluster, 1)]}, **headers)
        query = {"query": {"type": "RangeQuery"}, "partitions": [1]}
        await pod.post("/state/query/words", query, **headers)
    assert len(listening.requests) == 6
    for request in listening.requests:
        assert b"Authorization: Bearer abc\r\n" in request
        assert b"secret" not in request
        assert b"X-Mine" not in request
        assert b"scope=local" in request.split(b"\r\n")[0]


async def test_a_client_that_goes_away_stops_the_question_to_the_other_pod(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await spread(start_cluster)
    async with strange_pod(None) as hanging:
        await move_address(cluster, 1, hanging.port)
        # The question itself would end long after the wait below gives up.
        path = f"{SCAN}/{key_of(cluster, 1)}?timeout=60"
        asking = asyncio.create_task(api(cluster).get(path))
        await wait_until_async(lambda: hanging.requests)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await wait_until_async(lambda: hanging.left == len(hanging.requests))
