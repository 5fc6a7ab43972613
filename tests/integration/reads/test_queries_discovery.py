"""Discovery over HTTP: the paths of KIP-67 and the lags of KIP-535."""

from collections.abc import Awaitable, Callable

import msgspec
import pytest

from qss_core.wire.messages import Instance, KeyMetadata, StoreMetadata
from qss_testing.clients.http import Api
from qss_testing.pods.stores import Cluster, configuration

StartCluster = Callable[..., Awaitable[Cluster]]
MakeApi = Callable[..., Api]
PLACED = [
    configuration(0, active=0),
    configuration(1, active=1, learners=[0]),
    configuration(2, active=0),
    configuration(3, active=1),
]


async def placed(start_cluster: StartCluster) -> Cluster:
    cluster = await start_cluster(2, engine="memory", configurations=PLACED)
    await cluster.put_values({"a": 1, "b": 2, "c": 3, "d": 4}, {"in": {"0": 41}})
    standby = [configuration(0, active=0, standbys=[1], epoch=2), *PLACED[1:]]
    await cluster.assign(standby)
    return cluster


async def test_the_pods_of_a_store_with_their_partitions(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await placed(start_cluster)
    for ordinal in (0, 1):
        answer = await api(cluster, ordinal).get("/state/instances/words")
        metadata = msgspec.json.decode(answer.body, type=StoreMetadata)
        assert metadata.definition == cluster.definition
        assert [one.active for one in metadata.instances] == [(0, 2), (1, 3)]
        assert [one.standby for one in metadata.instances] == [(), (0,)]
        assert [one.query for one in metadata.instances] == [cluster.url(0), cluster.url(1)]
        assert [one.epoch for one in metadata.assignment] == [2, 1, 1, 1]
        every = (await api(cluster, ordinal).get("/state/instances")).json()
        assert every["stores"].keys() == {"words"}
        found = msgspec.convert(every["stores"]["words"], tuple[Instance, ...])
        assert found == metadata.instances


async def test_where_a_key_lives_whether_or_not_it_is_there(
    start_cluster: StartCluster, api: MakeApi
) -> None:
    cluster = await placed(start_cluster)
    for key in ("a", "b", "nowhere", "%2F"):
        answer = await api(cluster, 1).get(f"/state/instance/words/{key}")
        metadata = msgspec.json.decode(answer.body, type=KeyMetadata)
        partition = cluster.partition_of(b"/" if key == "%2F" else key.encode())
        assert metadata.partition == partition
        assert metadata.active.ordinal == PLACED[partition].active
        assert [one.ordinal for one in metadata.standbys] == ([1] if partition == 0 else [])


async def test_the_stores_of_a_pod(start_cluster: StartCluster, api: MakeApi) -> None:
    cluster = await placed(start_cluster)
    answer = (await api(cluster).get("/state/stores")).json()
    assert answer == {"stores": [{"name": "words", "type": "KeyValue"}]}


async def test_how_far_the_replicas_of_a_pod_are(start_cluster: StartCluster, api: MakeApi) -> None:
    cluster = await placed(start_cluster)
    lags = (await api(cluster, 1).get("/state/lags/words")).json()
    assert (lags["pod"], lags["ordinal"]) == ("words-1", 1)
    assert list(lags["partitions"]) == ["0", "1", "3"]
    active, standby = lags["partitions"]["1"], lags["partitions"]["0"]
    assert active == {
        "role": "active",
        "epoch": 1,
        "state": "serving",
        "appliedOffset": active["endOffset"],
        "endOffset": active["endOffset"],
        "lagOffsets": 0,
        "lagSeconds": 0.0,
        "sequence": 1,
        "position": {"@batch.test": {"0": 0}, "in": {"0": 41}},
        "streamTime": -1,
    }
    assert (standby["role"], standby["epoch"], standby["sequence"]) == ("standby", 2, 0)
    assert standby["lagSeconds"] is None
    assert standby["position"] == {}


@pytest.mark.parametrize(
    "path", ["instances/birds", "instance/birds/a", "lags/birds", "stores/birds", "count/birds"]
)
async def test_another_store_is_not_here(
    start_cluster: StartCluster, api: MakeApi, path: str
) -> None:
    cluster = await start_cluster(engine="memory")
    problem = (await api(cluster).get(f"/state/{path}")).problem(404, "STORE_NOT_FOUND")
    assert "words" in problem["detail"]
    assert problem["retry"] == "refresh-routes"


@pytest.mark.parametrize(
    "path",
    ["stores", "instances", "instances/words", "instance/words/a", "lags/words", "stores/words/a"],
)
async def test_a_pod_without_an_assignment_is_not_ready(
    start_cluster: StartCluster, api: MakeApi, path: str
) -> None:
    cluster = await start_cluster(engine="memory")
    await cluster.start_pod(1)
    answer = await api(cluster, 1).get(f"/state/{path}")
    answer.problem(503, "NOT_READY")
    assert answer.headers["Retry-After"] == "1"


@pytest.mark.parametrize(
    "path",
    [
        "/state/stores?x=1",
        "/state/instances?store=a",
        "/state/instances/words?x=1",
        "/state/instance/words/a?positionBound=x",
        "/state/lags/words?partitions=1",
    ],
)
async def test_discovery_has_no_such_parameter(
    start_cluster: StartCluster, api: MakeApi, path: str
) -> None:
    cluster = await start_cluster(engine="memory")
    (await api(cluster).get(path)).problem(400, "UNKNOWN_PARAMETER")


@pytest.mark.parametrize("what", ["windows", "sessions", "versions"])
@pytest.mark.parametrize("rest", ["", "/a", "/a%2Fb", "?from=1&to=2"])
async def test_what_other_types_of_stores_are_asked_is_refused_by_name(
    start_cluster: StartCluster, api: MakeApi, what: str, rest: str
) -> None:
    cluster = await start_cluster(engine="memory")
    answer = await api(cluster).get(f"/state/{what}/words{rest}")
    assert what in answer.problem(400, "UNKNOWN_QUERY_TYPE")["detail"]
