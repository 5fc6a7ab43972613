"""Guarded pods while the API server is away, refuses, or withdraws rights."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from qss_client import Store
from qss_client.http.retries import RetryLimits
from qss_core.errors import (
    AccessUnknownError,
    ForbiddenError,
    UnauthenticatedError,
)
from qss_testing.fakes.reviewer import Reviewer, make_token
from qss_testing.pods.guarded import BOTH, READER, STORE, WRITER, get_json, guarded, metric, rights
from qss_testing.pods.pod_process import PodCluster, PodProcess
from qss_testing.waiting import wait_until
from qss_testing.writers.writer import Record, Writer

AT_ONCE = RetryLimits(deadline_s=0.0)


@pytest.fixture
def short_cluster(tmp_path: Path) -> Iterator[tuple[PodCluster, Reviewer]]:
    """One pod that remembers four tokens for half a second."""
    environment = {
        "QSS_ACCESS_POSITIVE_S": "0.5",
        "QSS_ACCESS_NEGATIVE_S": "0.2",
        "QSS_ACCESS_TOKENS_MAX": "4",
    }
    with (
        Reviewer(rights()) as reviewer,
        guarded(tmp_path, reviewer, environment=environment) as cluster,
    ):
        yield cluster, reviewer


def test_without_the_api_server_the_known_go_on_and_the_unknown_come_again(
    short_cluster: tuple[PodCluster, Reviewer],
) -> None:
    cluster, reviewer = short_cluster
    pod = cluster.pods[0]
    reader, writer = make_token(READER), make_token(WRITER)
    with Store(cluster.url, STORE, token=reader) as store:
        assert store.get("a") is None
        with Writer(cluster.url, STORE, token=writer) as job:
            reviewer.go_away()
            line = 'qss_access_cache_hits_total{state="stale"}'
            wait_until(lambda: store.get("a") is None and metric(pod, line) >= 3)
            job.write([Record("a", 1)])
        row = store.get("a")
        assert row is not None
        assert row.value == 1
        with pytest.raises(AccessUnknownError):
            Store(cluster.url, STORE, token=make_token(BOTH), limits=AT_ONCE).get("a")
        assert pod.report() is not None
        assert "the API server reviews no tokens: " in pod.log()
        reviewer.come_back()
        # The client waits for long enough.
        with Store(cluster.url, STORE, token=make_token(BOTH)) as other:
            assert other.get("a") is not None
        assert "answers reviews again" in pod.log()


def test_a_right_that_is_taken_away_is_soon_gone(
    short_cluster: tuple[PodCluster, Reviewer],
) -> None:
    cluster, reviewer = short_cluster
    url = f"{cluster.url}/state/stores/words"

    def is_refused() -> bool:
        try:
            get_json(url, token=make_token(READER, expires_in_s=None))
        except ForbiddenError:
            return True
        return False

    assert not is_refused()
    reviewer.rights[READER] = set()
    wait_until(is_refused)
    reviewer.rights.update(rights())
    wait_until(lambda: not is_refused())


def test_what_is_remembered_is_bounded(short_cluster: tuple[PodCluster, Reviewer]) -> None:
    cluster, _ = short_cluster
    for serial in range(10):
        get_json(f"{cluster.url}/state/stores/words", token=make_token(READER, serial=serial))
        with pytest.raises(UnauthenticatedError):
            get_json(f"{cluster.url}/state/stores/words", token=f"wrong{serial}")
    assert metric(cluster.pods[0], "qss_access_tokens ") == 8


def test_an_api_server_that_refuses_the_pod_is_told_in_the_log(
    short_cluster: tuple[PodCluster, Reviewer],
) -> None:
    cluster, reviewer = short_cluster
    reviewer.server.next_answer(403, "Forbidden", word="tokenreviews", times=100)
    with pytest.raises(AccessUnknownError):
        get_json(f"{cluster.url}/state/stores/words", token=make_token(READER))
    assert "bind the ClusterRole system:auth-delegator" in cluster.pods[0].log()


@pytest.mark.parametrize("fault", ["hangs", "is cut", "nonsense", "500", "429"])
def test_one_bad_answer_of_the_api_server_is_asked_for_again(
    short_cluster: tuple[PodCluster, Reviewer], fault: str
) -> None:
    cluster, reviewer = short_cluster
    match fault:
        case "hangs":
            reviewer.server.next_hangs("reviews")
        case "is cut":
            reviewer.server.next_is_cut("reviews", after_bytes=b"{")
        case "nonsense":
            reviewer.server.next_bytes(201, b"<html>", word="reviews")
        case status:
            reviewer.server.next_answer(int(status), word="reviews")
    with Store(cluster.url, STORE, token=make_token(READER)) as store:
        assert store.get("a") is None
    reviewer.run(_done(reviewer))


async def _done(reviewer: Reviewer) -> None:
    reviewer.server.release()


def test_a_command_line_without_an_api_server_is_refused(tmp_path: Path) -> None:
    flags = (
        *("--authentication", "serviceaccount", "--namespace", "shop"),
        *("--peer-service-account", "a", "--peer-token-file", "/t"),
    )
    pod = PodProcess("words", 0, tmp_path / "pod-0", {"KUBERNETES_SERVICE_HOST": ""}, (), flags)
    pod.launch()
    assert pod.process is not None
    assert pod.process.wait(timeout=30) == 2
    assert "needs --kubernetes-api" in pod.log()
