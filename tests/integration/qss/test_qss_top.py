"""`qss top` against real pods."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from qss_client.cli.top.rates import shown_of
from qss_client.cli.top.sampling import Sampler
from qss_client.clock import SystemClock
from qss_client.http.retries import RetryLimits
from qss_client.kube.connection import ConnectionOptions, CredentialOptions
from qss_core.model import Epoch
from qss_testing.clients.terminal import Terminal
from qss_testing.page_commands import outputs_of_page
from qss_testing.pods.pod_process import PodCluster
from qss_testing.writers.writer import Record, Writer


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PodCluster]:
    with PodCluster(tmp_path_factory.mktemp("top"), pods=2, partitions=2) as cluster:
        with Writer(cluster.url, cluster.store) as writer:
            writer.write([Record(key, 1, 1000) for key in "abcdef"])
        yield cluster


def metrics_urls(cluster: PodCluster) -> str:
    return ",".join(pod.ops for pod in cluster.pods)


def test_partitions_pods_and_rates_are_shown_again_and_again(
    cluster: PodCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    qss = Terminal(cluster.url, capsys)
    given = ("top", "words", "--interval", "0.5", "--limit", "2")
    done = qss.run(*given, "--metrics-url", metrics_urls(cluster), "-o", "ndjson")
    assert (done.code, done.err) == (0, "")
    screens = [json.loads(line) for line in done.out.splitlines()]
    assert len(screens) == 2
    for screen in screens:
        assert (screen["store"], screen["batchesPerSecond"]) == ("words", 0.0)
        # The questions of `top` itself do not count.
        assert (screen["rowsPerSecond"], screen["readsPerSecond"]) == (0.0, 0.0)
        assert [one["state"] for one in screen["pods"]] == ["answers", "answers"]
        assert all(one["freeBytes"] > 0 for one in screen["pods"])
        assert [(one["active"], one["sequence"]) for one in screen["partitions"]] == [
            ("words-0", 1),
            ("words-1", 1),
        ]


def test_without_metrics_the_partitions_are_shown(
    cluster: PodCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    done = Terminal(cluster.url, capsys).run("top", "words", "--interval", "0.5", "--limit", "1")
    page = outputs_of_page("store-pod/docs/command-line.md")["qss top words"]
    blocks = [[line.split() for line in one.splitlines()] for one in done.out.split("\n\n")]
    told = [[line.split() for line in one.splitlines()] for one in page.split("\n\n")]
    assert [block[0] for block in blocks] == [block[0] for block in told]
    assert [row[:5] for row in blocks[2]] == [row[:5] for row in told[2]]
    assert blocks[1][1][2:] == ["-"] * 5


def test_a_pod_that_is_away_is_shown_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with PodCluster(tmp_path, pods=2, partitions=2) as cluster:
        cluster.pods[1].kill()
        given = ("top", "words", "--interval", "0.5", "--limit", "1", "-o", "json")
        (screen,) = (
            json.loads(line) for line in Terminal(cluster.url, capsys).run(*given).out.splitlines()
        )
    assert [one["state"] for one in screen["pods"]] == ["answers", "UNREACHABLE"]
    assert [one["state"] for one in screen["partitions"]] == ["serving", "no answer"]


def test_behind_one_port_a_pod_tells_of_all_pods_and_of_the_rows(tmp_path: Path) -> None:
    with PodCluster(tmp_path, pods=2, partitions=2) as cluster:
        connection = ConnectionOptions(
            urls=(cluster.url,), store="words", shown=CredentialOptions(), direct=False
        )
        http = connection.http()
        with connection.client(RetryLimits()) as client:
            known = client.metadata()
        sampler = Sampler(http, connection, (), SystemClock())
        with Writer(cluster.url, cluster.store) as writer:
            writer.write([Record("a", 1), Record("b", 2)])
            before = sampler.sample(known)
            writer.write([Record(key, 1) for key in "abc"])
        begin_again(cluster, 0)
        with Writer(cluster.url, cluster.store, "next") as writer:
            writer.write([Record("d", 1)])
        with connection.client(RetryLimits()) as client:
            for key in "abc":
                client.get(key)
        now = sampler.sample(known)
        assert now.batches is not None
        told = [(one.sequence, one.rows) for one in now.batches.batches]
        assert told == [(2, 3), (3, 1)], "the coordinator has seen the second one alone"
        shown = shown_of(before, now)
        assert shown.store["rowsPerSecond"] == round(4 / (now.at_s - before.at_s), 1)
        assert [one["sequence"] for one in shown.partitions] == [3, 3]
        # The reads of one port are those of its pod; its own questions are none.
        rate = round(3 / (now.at_s - before.at_s), 1)
        assert [one["readsPerSecond"] for one in shown.pods] == [rate, 0.0]
        assert shown.store["readsPerSecond"] == rate
        assert shown.pods[0]["readMs"] > 0
        cluster.pods[1].kill()
        away = shown_of(now, sampler.sample(known))
        http.close()
    assert [one["state"] for one in away.pods] == ["answers", "no answer"]
    assert [one["state"] for one in away.partitions] == ["serving", "no answer"]


def begin_again(cluster: PodCluster, pod: int) -> None:
    """Kills a pod and starts it in a new epoch, as the control plane does."""
    cluster.pods[pod].kill()
    cluster.pods[pod].start()
    newer = tuple(replace(one, epoch=Epoch(2)) for one in cluster.assignment.partitions)
    cluster.assignment = replace(cluster.assignment, partitions=newer)
    for one in cluster.pods:
        cluster.assign(one)


def test_a_store_is_named_unless_there_is_a_local_cluster(
    cluster: PodCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    qss = Terminal(cluster.url, capsys)
    assert "which store?" in qss.refused(2, "top")
    assert "name one store" in qss.refused(2, "top", "a", "b", "--metrics-url", "http://a:1")
