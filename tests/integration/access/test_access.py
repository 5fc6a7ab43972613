"""Real pods ask an API server for the account of a token and for its rights."""

import http.client
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from qss_client import Store
from qss_client.http.retries import RetryLimits
from qss_client.http.sync_http import SyncHttp
from qss_core.errors import (
    ForbiddenError,
    StoreError,
    UnauthenticatedError,
)
from qss_core.wire.messages import StoreMetadata
from qss_core.wire.replica_reports import ReplicasReport
from qss_testing.fakes.reviewer import Reviewer, make_token
from qss_testing.pods.guarded import (
    BIRDS,
    BOTH,
    OPERATOR,
    PODS,
    READER,
    STORE,
    STRANGER,
    WRITER,
    get_json,
    guarded,
    metric,
    rights,
)
from qss_testing.pods.pod_process import PodCluster
from qss_testing.writers.writer import Record, Writer

AT_ONCE = RetryLimits(deadline_s=0.0)
KEYS = [f"k{number}" for number in range(20)]


@pytest.fixture(scope="module")
def reviewer() -> Iterator[Reviewer]:
    with Reviewer(rights()) as reviewer:
        yield reviewer


@pytest.fixture(scope="module")
def cluster(reviewer: Reviewer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PodCluster]:
    with guarded(tmp_path_factory.mktemp("pods"), reviewer, pods=2) as cluster:
        with Writer(cluster.pods[0].internal, STORE, token=make_token(WRITER)) as writer:
            writer.write(Record(key, {"n": 1}) for key in KEYS)
        yield cluster


# --- Reviews


def test_without_a_token_the_answer_says_what_is_wanted(cluster: PodCluster) -> None:
    for port in cluster.pods[0].ports[:2]:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        connection.request("GET", f"/state/instances/{STORE}")
        with connection.getresponse() as answer:
            assert answer.status == 401
            assert answer.headers["WWW-Authenticate"] == "Bearer"
            assert answer.headers["Content-Type"] == "application/problem+json"
            assert json.loads(answer.read())["code"] == "UNAUTHENTICATED"
        connection.close()


def test_refusals_are_in_the_document(cluster: PodCluster) -> None:
    document = get_json(f"{cluster.url}/openapi.json", token=make_token(STRANGER))
    assert document["components"]["securitySchemes"]["serviceAccount"]["scheme"] == "bearer"
    for methods in document["paths"].values():
        for described in methods.values():
            assert {"401", "403", "503"} <= described["responses"].keys()


def test_health_and_metrics_need_no_token(cluster: PodCluster) -> None:
    client = SyncHttp()
    for path in ("livez", "readyz", "metrics"):
        assert client.request("GET", f"{cluster.pods[0].ops}/{path}").status == 200
    client.close()


@pytest.mark.parametrize(
    ("token", "says"),
    [
        (make_token(READER, audience="vault"), "the token is for vault: ask Kubernetes"),
        (make_token(READER, audience=None), "the API server does not accept the token"),
        (make_token(READER, expires_in_s=-1), "the token has expired"),
        (make_token("system:serviceaccount:shop:unknown"), "does not accept the token"),
        ("nonsense", "does not accept the token"),
    ],
)
@pytest.mark.parametrize("path", ["state/stores/words/k1", "openapi.json", "nowhere", "%2e%2e/x"])
def test_a_token_that_is_not_valid_here_opens_nothing(
    cluster: PodCluster, token: str, says: str, path: str
) -> None:
    with pytest.raises(UnauthenticatedError, match=says) as told:
        get_json(f"{cluster.url}/{path}", token=token)
    assert token not in str(told.value)


def test_every_account_may_see_what_tells_nothing_of_the_store(cluster: PodCluster) -> None:
    assert get_json(f"{cluster.url}/openapi.json", token=make_token(STRANGER))["openapi"] == "3.1.0"
    with pytest.raises(StoreError, match="PATH_NOT_FOUND"):
        get_json(f"{cluster.url}/nowhere", token=make_token(STRANGER))


# --- Rights


@pytest.mark.parametrize("name", [STRANGER, WRITER, BIRDS, PODS, OPERATOR])
def test_who_may_not_query_reads_no_row(cluster: PodCluster, name: str) -> None:
    may_not = f"{name} may not get queryablestatestores/query of words: "
    paths = ("stores/words/k1", "stores/words", "count/words", "stores/birds/k1", "%73tores/words")
    for path in paths:
        with pytest.raises(ForbiddenError, match=may_not):
            get_json(f"{cluster.url}/state/{path}", token=make_token(name))


@pytest.mark.parametrize("name", [STRANGER, READER, PODS, OPERATOR])
def test_who_may_not_write_opens_no_writer(cluster: PodCluster, name: str) -> None:
    url = f"{cluster.pods[0].internal}/changelog/stores/words/writers/w"
    client = SyncHttp(make_token(name))
    with pytest.raises(ForbiddenError, match="may not update queryablestatestores/write of words"):
        client.post(url, {}, dict)
    client.close()


def test_a_refused_request_is_logged_without_its_key_and_its_token(
    reviewer: Reviewer, tmp_path: Path
) -> None:
    """The pod is new: lines that it owes for a minute after an earlier refusal are not missed."""
    tokens = ("secret-token", make_token(STRANGER), make_token(READER))
    with guarded(tmp_path, reviewer) as cluster:
        pod = cluster.pods[0]
        for token in tokens:
            with pytest.raises(StoreError):
                get_json(f"{pod.query}/state/stores/words/secret-key?partition=secret", token=token)
        with pytest.raises(StoreError):
            get_json(f"{pod.internal}/changelog/stores/secret-key", token=tokens[0])
        log = pod.log()
    route = "refused GET /state/stores/{store}/{key} (query)"
    told = [line.partition(": ")[2] for line in log.splitlines() if ": refused " in line]
    assert told == [
        f"{route}: UNAUTHENTICATED (401)",
        f"{route}: FORBIDDEN (403)",
        f"{route}: MALFORMED_REQUEST (400)",
        "refused GET (none) (internal): UNAUTHENTICATED (401)",
    ]
    assert "secret" not in log
    assert not [token for token in tokens if token in log]


@pytest.mark.parametrize("name", [STRANGER, READER, WRITER, BOTH])
def test_only_pods_and_the_operator_control(cluster: PodCluster, name: str) -> None:
    pod = cluster.pods[0]
    with pytest.raises(ForbiddenError, match="may not do this to words: only"):
        get_json(f"{pod.internal}/control/replicas", token=make_token(name))
    client = SyncHttp(make_token(name))
    for what in ("assignment", "conditions"):
        with pytest.raises(ForbiddenError):
            client.request("PUT", f"{pod.internal}/control/{what}", body=b"{}")
    client.close()
    for other in (OPERATOR, PODS):
        report = SyncHttp(make_token(other)).get(f"{pod.internal}/control/replicas", ReplicasReport)
        assert report.ready


def test_what_is_between_pods_is_for_pods_only(cluster: PodCluster) -> None:
    url = f"{cluster.pods[0].internal}/transactions/resolve"
    for name in (BOTH, OPERATOR):
        with pytest.raises(ForbiddenError, match=f"only {PODS} may"):
            SyncHttp(make_token(name)).post(url, {}, dict)
    with pytest.raises(StoreError, match="MALFORMED_REQUEST"):
        SyncHttp(make_token(PODS)).post(url, {}, dict)


@pytest.mark.parametrize("name", [READER, WRITER, OPERATOR, PODS])
def test_discovery_is_for_all_who_have_to_do_with_the_store(cluster: PodCluster, name: str) -> None:
    for base in (cluster.url, cluster.pods[0].internal):
        client = SyncHttp(make_token(name))
        assert client.get(f"{base}/state/instances/words", StoreMetadata) == cluster.metadata
        client.close()
    for base in (cluster.url, cluster.pods[0].internal):
        with pytest.raises(ForbiddenError, match="/query or update queryablestatestores/write"):
            get_json(f"{base}/state/instances/words", token=make_token(STRANGER))


@pytest.mark.parametrize("token", [None, "nonsense", make_token(WRITER), make_token(STRANGER)])
def test_no_key_is_answered_by_its_own_pod_to_who_may_not_query(
    cluster: PodCluster, token: str | None
) -> None:
    """A pod answers its own keys on a shorter path, which has to check the right, too."""
    for pod in cluster.pods:
        # Accounts with the right get the key.
        get_json(f"{pod.query}/state/stores/words/k1", token=make_token(READER))
        client = SyncHttp(token) if token else SyncHttp()
        for key in KEYS:
            with pytest.raises((UnauthenticatedError, ForbiddenError)):
                client.request("GET", f"{pod.query}/state/stores/words/{key}")
            with pytest.raises((UnauthenticatedError, ForbiddenError)):
                client.post(f"{pod.query}/state/get/words", {"keys": [key]}, dict)
        client.close()


# --- Between pods


def test_a_read_that_is_passed_on_is_judged_there_by_its_own_caller(
    cluster: PodCluster, reviewer: Reviewer
) -> None:
    token = make_token(READER, serial=1)
    for key in KEYS:
        assert get_json(f"{cluster.url}/state/stores/words/{key}", token=token)["value"] == {"n": 1}
    rows = get_json(f"{cluster.url}/state/stores/words", token=token)["rows"]
    assert sorted(row["key"] for row in rows) == sorted(KEYS)
    reviews = [one["token"] for one in reviewer.asked("TokenReview")]
    assert reviews.count(token) == 2  # Each pod made its own review.
    with Store(cluster.url, STORE, token=token) as store:
        assert len(store.get_many(KEYS)) == len(KEYS)
        assert store.count() >= 0


def test_a_write_that_is_passed_on_is_judged_there_by_its_own_caller(cluster: PodCluster) -> None:
    other = cluster.pods[1].internal
    store_id = cluster.metadata.definition.store_id
    url = f"{other}/changelog/stores/words/writers/passed-on?storeId={store_id}"
    body = json.dumps({"queryId": "q", "runId": "r", "openId": "o"}).encode()
    opened = SyncHttp(make_token(WRITER)).request("POST", url, body=body)
    assert json.loads(opened.body)["metadata"]


def test_pods_coordinate_with_their_own_token(cluster: PodCluster) -> None:
    with Writer(cluster.url, STORE, "pods", token=make_token(BOTH)) as writer:
        writer.write(Record(key, {"n": 2}) for key in KEYS)
    with Store(cluster.url, STORE, token=make_token(BOTH)) as store:
        assert [row and row.value for row in store.get_many(KEYS)] == [{"n": 2}] * len(KEYS)
        with Writer(cluster.url, STORE, "pods", token=make_token(BOTH)) as writer:
            writer.write(Record(key, {"n": 1}) for key in KEYS)


# --- Remembered verdicts


def test_a_known_token_is_not_reviewed_again(cluster: PodCluster, reviewer: Reviewer) -> None:
    token = make_token(READER, serial=2)
    url = f"{cluster.url}/state/stores/words/k1?scope=local&partition=0"
    before = metric(cluster.pods[0], 'qss_access_cache_hits_total{state="fresh"}')
    for _ in range(5):
        with pytest.raises(StoreError, match="MALFORMED_REQUEST"):
            get_json(url, token=token)
    assert [one["token"] for one in reviewer.asked("TokenReview")].count(token) == 1
    assert metric(cluster.pods[0], 'qss_access_cache_hits_total{state="fresh"}') >= before + 4
    assert metric(cluster.pods[0], 'qss_access_reviews_total{result="allowed",review="query"}') >= 1


def test_no_token_is_in_logs_or_metrics(cluster: PodCluster) -> None:
    token = make_token(READER, serial=3)
    get_json(f"{cluster.url}/state/stores/words/k1", token=token)
    client = SyncHttp()
    for pod in cluster.pods:
        told = pod.log() + client.request("GET", f"{pod.ops}/metrics").body.decode()
        for secret in (token, make_token(PODS), token.split(".")[1]):
            assert secret not in told
    client.close()


# --- Clients


def test_a_client_takes_the_newer_token_of_its_file(cluster: PodCluster, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(make_token(READER, expires_in_s=-1))
    with Store(cluster.url, STORE, token_file=path, limits=AT_ONCE) as store:
        with pytest.raises(UnauthenticatedError):
            store.get("k1")
        newer = tmp_path / "newer"
        newer.write_text(make_token(READER))
        newer.rename(path)
        assert store.get("k1") is not None


def test_a_request_that_came_with_an_old_token_is_sent_again_with_the_new_one(
    cluster: PodCluster,
) -> None:
    tokens = [make_token(READER, expires_in_s=-1), make_token(READER)]
    given: list[str] = []

    def next_token() -> str:
        given.append(tokens[min(len(given), 1)])
        return given[-1]

    client = SyncHttp(next_token)
    assert client.request("GET", f"{cluster.url}/state/stores/words/k1").status == 200
    assert given == tokens
    client.close()
