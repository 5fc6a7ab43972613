"""Windows while pods disconnect, answer nonsense, are behind or are down."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from qss_testing.clients.http import NDJSON, Api
from qss_testing.fakes.strange_pods import (
    http_answer,
    leave_standby_behind,
    move_address,
    strange_pod,
)
from qss_testing.pods.stores import Cluster, Put, configuration
from qss_testing.pods.timed_stores import (
    SIZE_MS,
    WINDOW,
    StartCluster,
    by_row_key,
    by_time,
    seen,
    windows_of,
)

MakeApi = Callable[..., Api]
WINDOWS = "/state/windows/words"
BY_TIME = f"{WINDOWS}?orderBy=time"
KEYS = [b"k%02d" % number for number in range(12)]
ROWS = [Put(key, b"1", 7, start=start) for key in KEYS for start in (0, 1000, 2_000_000)]
# By pod 0's assignment partition p is active on pod p.
SPREAD = [configuration(number, number) for number in range(3)]


async def spread(start_cluster: StartCluster) -> Cluster:
    """Partition p on pod p."""
    members = {**WINDOW, "partitions": 3, "engine": "memory", "configurations": SPREAD}
    cluster = await start_cluster(3, **members)
    await cluster.put(ROWS, {"in": {"0": 41}})
    return cluster


async def alone(start_cluster: StartCluster) -> Cluster:
    """One partition, active on pod 0; pod 1 is a standby without data."""
    members = {**WINDOW, "partitions": 1, "engine": "memory"}
    cluster = await start_cluster(2, configurations=[configuration(0, 0, standbys=[1])], **members)
    await leave_standby_behind(cluster)
    await cluster.put(ROWS, {"in": {"0": 41}})
    return cluster


def of_partition(cluster: Cluster, partition: int) -> list[Put]:
    inside = [put for put in ROWS if cluster.partition_of(put.key) == partition]
    return by_row_key(cluster, inside)


def line_of(put: Put) -> str:
    row: dict[str, Any] = {"key": put.key.decode(), "windowStart": put.start}
    row |= {"windowEnd": put.start + SIZE_MS, "value": 1, "timestamp": 7}
    return json.dumps(row, separators=(",", ":"))


async def test_a_stream_that_breaks_off_goes_on_after_its_last_whole_row(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await spread(start_cluster)
    real_port = cluster.ports[1]
    rows = of_partition(cluster, 1)
    sent = "".join(line_of(put) + "\n" for put in rows[:4]) + '{"key":"k'
    async with strange_pod(http_answer(200, NDJSON, sent.encode(), length=9999)) as breaking:
        await move_address(cluster, 1, breaking.port)
        lines = (await api(cluster).get(f"{WINDOWS}?partitions=1", Accept=NDJSON)).lines()
    await move_address(cluster, 1, real_port)
    assert windows_of(lines[:-1]) == [seen(put) for put in rows[:4]]
    assert lines[-1]["failure"]["reason"] == "UNREACHABLE"
    rest = await api(cluster).rows(f"{WINDOWS}?cursor={lines[-1]['cursor']}")
    assert windows_of(rest) == [seen(put) for put in rows[4:]]


@pytest.mark.parametrize(
    "said",
    [
        http_answer(200, "text/html", b"<p>hello"),
        http_answer(200, NDJSON, b""),
        http_answer(200, NDJSON, b"what\n"),
        http_answer(200, NDJSON, b'{"key":"a"}\n'),
        http_answer(200, NDJSON, b'{"key":"a","windowStart":5}\n', length=99),
        http_answer(500, "text/plain", b"oh"),
        b"",
    ],
)
async def test_whatever_a_pod_answers_the_page_is_told_and_asked_for_again(
    start_cluster: StartCluster, api: MakeApi, said: bytes
) -> None:
    cluster = await spread(start_cluster)
    real_port = cluster.ports[1]
    async with strange_pod(said) as strange:
        await move_address(cluster, 1, strange.port)
        answer = (await api(cluster).get(BY_TIME)).json()
        partitions = answer["partitions"]
        assert partitions["1"]["failure"]["reason"] in ("STORE_EXCEPTION", "UNREACHABLE")
        given = {row["key"].encode() for row in answer["rows"]}
        assert not any(cluster.partition_of(key) == 1 for key in given)
        if partitions["1"]["failure"]["reason"] == "UNREACHABLE":
            assert answer["rows"] == [], "the partition may come back"
            assert answer["cursor"]
        asked = [request.split(b" ")[1].decode() for request in strange.requests]
        assert all("scope=local" in target for target in asked), "one hop, never more"
    await move_address(cluster, 1, real_port)
    if answer["rows"] == []:
        again = (await api(cluster).get(f"{BY_TIME}&cursor={answer['cursor']}")).json()
        assert windows_of(again["rows"]) == [seen(put) for put in by_time(cluster, ROWS)]


async def test_a_page_ends_where_a_pod_ended_its_own(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await spread(start_cluster)
    real_port = cluster.ports[1]
    # The answer of a pod with smaller limits than the pod that asks it.
    short = await api(cluster, 1).get(f"{BY_TIME}&partitions=1&limit=2&scope=local", Accept=NDJSON)
    async with strange_pod(http_answer(200, NDJSON, short.body)) as cautious:
        await move_address(cluster, 1, cautious.port)
        first = (await api(cluster).get(f"{BY_TIME}&limit=100")).json()
    await move_address(cluster, 1, real_port)
    last = short.lines()[1]
    assert (first["rows"][-1]["key"], first["rows"][-1]["windowStart"]) == (
        last["key"],
        last["windowStart"],
    )
    assert first["partitions"]["1"]["end"] is False
    rest = (await api(cluster).get(f"{BY_TIME}&cursor={first['cursor']}")).json()
    everything = [*first["rows"], *rest["rows"]]
    assert windows_of(everything) == [seen(put) for put in by_time(cluster, ROWS)]


async def test_a_page_never_goes_on_in_an_older_state(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await alone(start_cluster)
    for path in (f"{WINDOWS}?limit=5", f"{BY_TIME}&limit=5"):
        first = (await api(cluster, 0).get(path)).json()
        # The standby has no data: the active answers.
        rest = (await api(cluster, 1).get(f"{path}0&cursor={first['cursor']}")).json()
        assert rest["partitions"]["0"]["servedBy"] == "words-0"
        assert len(first["rows"]) + len(rest["rows"]) == len(ROWS)
        here = await api(cluster, 1).get(f"{path}0&scope=local&cursor={first['cursor']}")
        assert here.json()["partitions"]["0"]["failure"]["reason"] == "NOT_UP_TO_BOUND"


async def test_a_standby_answers_where_the_active_is_down(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await alone(start_cluster)
    await cluster.stop_pod(0)
    for path in (WINDOWS, BY_TIME, f"{WINDOWS}/k01"):
        answer = (await api(cluster, 1).get(path)).json()
        assert answer["partitions"]["0"]["servedBy"] == "words-1"
        required = f"{path}{'&' if '?' in path else '?'}requireActive=true"
        missing = (await api(cluster, 1).get(required)).json()
        assert missing["partitions"]["0"]["failure"]["reason"] == "UNREACHABLE"
        assert missing["cursor"]
