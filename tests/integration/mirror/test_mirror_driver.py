"""`qss_spark.mirror` copies the state of a query by a thread, until the query ends."""

import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import urllib3
import yaml

from qss_core.errors import (
    MalformedRequestError,
    StaleWriterError,
    StoreError,
    StoreNotFoundError,
)
from qss_operator.resources.validation import validate_resource
from qss_spark import mirror
from qss_spark.mirroring.metrics import MirrorMetrics
from qss_spark.mirroring.wanted_copies import read_wanted
from qss_spark.state.errors import CheckpointError
from qss_testing.pods.pod_process import PodCluster
from qss_testing.waiting import wait_until
from qss_testing.writers.committed_query import (
    Query,
    copying,
    held_file,
    rows_in,
    shown_metrics,
    steps_of,
)

KUBERNETES = Path(__file__).parents[3] / "spark-jobs" / "kubernetes"
WAIT_S = 120.0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[PodCluster]:
    with PodCluster(tmp_path / "pods", key_serde="json") as cluster:
        yield cluster


def test_the_thread_begins_with_the_first_batch_and_ends_with_the_newest(
    tmp_path: Path, cluster: PodCluster
) -> None:
    query = Query(tmp_path, "dedup-hdfs")
    first, *_, last = query.batches
    with mirror(query.path, cluster.store, url=cluster.url) as running:
        assert running.is_running
        query.commit(first)
        wait_until(lambda: len(rows_in(cluster)) > 0, WAIT_S)
        query.commit_all()
    assert not running.is_running
    assert len(rows_in(cluster)) == len(query.expected[""])
    assert running.error is None
    with copying(cluster, query, writer=cluster.store) as copy:
        assert copy.last == last


class EndingQuery:
    """A query that commits its batches and ends the first time that it is asked."""

    def __init__(self, query: Query) -> None:
        self._query = query
        self._jsq = self

    def streamingQuery(self) -> "EndingQuery":  # noqa: N802 Spark's name.
        return self

    def resolvedCheckpointRoot(self) -> str:  # noqa: N802 Spark's name.
        return f"file:{self._query.path}"

    @property
    def isActive(self) -> bool:  # noqa: N802 Spark's name.
        self._query.commit_all()
        return False


def test_a_query_that_ends_with_its_first_batches_is_copied(
    tmp_path: Path, cluster: PodCluster
) -> None:
    query = Query(tmp_path, "dedup-hdfs")
    running = mirror(cast("Any", EndingQuery(query)), cluster.store, url=cluster.url)
    wait_until(lambda: not running.is_running, WAIT_S)
    running.stop()
    assert len(rows_in(cluster)) == len(query.expected[""])


def test_a_mirror_that_is_to_end_at_once_ends_behind_its_batch(
    tmp_path: Path, cluster: PodCluster
) -> None:
    query = Query(tmp_path, "dedup-hdfs")
    first, *_ = query.batches
    query.commit(first)
    with held_file(query.path / "state" / "0" / "0" / f"{first + 1}.delta") as is_read:
        running = mirror(query.path, cluster.store, url=cluster.url)
        is_read()
        query.commit_all()
        with pytest.raises(StoreError, match="has not ended in 0 s"):
            running.stop(0.0, copies_rest=False)
    running.stop(WAIT_S, copies_rest=False)
    with copying(cluster, query, writer=cluster.store) as copy:
        assert copy.last == first


def test_the_reading_of_a_large_state_is_told(
    tmp_path: Path, cluster: PodCluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    query = Query(tmp_path, "dedup-hdfs")
    first, *_ = query.batches
    query.commit(first)
    with held_file(query.path / "state" / "0" / "0" / f"{first + 1}.delta") as is_read:
        running = mirror(query.path, cluster.store, url=cluster.url)
        is_read()
        said = re.compile(rf"{cluster.store}: reads the whole state of batch {first}, \d+ s")
        wait_until(lambda: said.search(caplog.text), WAIT_S)
    running.stop()


def test_a_wait_for_the_first_batch_is_told(
    tmp_path: Path, cluster: PodCluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    query = Query(tmp_path, "dedup-hdfs")
    with mirror(query.path, cluster.store, url=cluster.url, directory_wait_s=0.0) as running:
        said = f"no batch of {query.path} is committed yet: the mirror waits"
        wait_until(lambda: said in caplog.text, WAIT_S)
        assert running.is_running


def test_a_directory_that_is_not_there_is_told_and_ends_the_mirror_later(
    tmp_path: Path, cluster: PodCluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    running = mirror(tmp_path / "none", cluster.store, url=cluster.url, directory_wait_s=2.0)
    wait_until(lambda: not running.is_running, WAIT_S)
    assert f"{tmp_path / 'none'} is no directory: the mirror waits" in caplog.text
    with pytest.raises(CheckpointError, match="is no directory, and has been so for 2 s"):
        running.stop()


def test_the_thread_goes_on_once_pods_answer_again_and_says_so_once(
    tmp_path: Path, cluster: PodCluster, caplog: pytest.LogCaptureFixture
) -> None:
    query = Query(tmp_path, "dedup-hdfs")
    query.commit(query.batches[0])
    running = mirror(query.path, {cluster.store: {"operator": 0}}, url=cluster.url, writer="w")
    wait_until(lambda: len(rows_in(cluster)) > 0, WAIT_S)
    cluster.pods[0].kill()
    query.commit_all()
    wait_until(lambda: "asked again for up to" in caplog.text, WAIT_S)
    assert "answers again" not in caplog.text
    cluster.pods[0].start()
    running.stop()
    assert len(rows_in(cluster)) == len(query.expected[""])
    assert len(re.findall(r"the store answers again after \d+ s", caplog.text)) == 1


def test_the_lag_is_told_while_pods_do_not_answer(
    tmp_path: Path, cluster: PodCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Also before the first contact: a mirror that starts again and again would never be late."""
    query = Query(tmp_path, "dedup-hdfs")
    query.commit_all()
    first = query.path / "commits" / str(query.batches[0])
    os.utime(first, (0, 0))
    cluster.pods[0].kill()
    running = mirror(query.path, cluster.store, url=cluster.url)
    port = running.metrics.serve(0)
    shown = shown_metrics(port)
    assert shown["qss_mirror_batches_behind"] == len(query.batches)
    assert shown["qss_mirror_behind_seconds"] > 1_000_000
    wait_until(lambda: "the mirror goes on in 2 s" in caplog.text, WAIT_S)
    caplog.set_level(logging.INFO)
    cluster.pods[0].start()
    wait_until(lambda: shown_metrics(port)["qss_mirror_batches_behind"] == 0, WAIT_S)
    running.stop()
    assert caplog.messages.count("the pods answer again: the mirror goes on") == 1
    shown = shown_metrics(port)
    assert shown["qss_mirror_behind_seconds"] == 0
    assert shown["qss_mirror_read_bytes"] > 0


def test_an_error_that_stays_ends_the_thread_and_is_raised_at_its_stop(
    tmp_path: Path, cluster: PodCluster
) -> None:
    query = Query(tmp_path, "dedup-hdfs")
    query.commit(query.batches[0])
    running = mirror(query.path, cluster.store, url=cluster.url)
    wait_until(lambda: len(rows_in(cluster)) > 0, WAIT_S)
    with copying(cluster, query, writer=cluster.store) as second:
        query.commit(query.batches[1])
        steps_of(second)
        query.commit(query.batches[2])
        wait_until(lambda: not running.is_running, WAIT_S)
    with pytest.raises(StaleWriterError):
        running.stop()
    assert isinstance(running.error, StaleWriterError)


@pytest.mark.parametrize(
    ("stores", "said"),
    [
        (5, "stores: a name"),
        ({}, "stores: a name"),
        ({"a": {"parts": "x"}}, "parts"),
        ({"a": 5}, "stores: "),
        ({"a": {}, "b": {}}, "need a name for their writer"),
        ("../x", "no store's name"),
    ],
)
def test_what_cannot_be_copied_is_refused_before_a_thread_begins(
    tmp_path: Path, stores: Any, said: str
) -> None:
    with pytest.raises(MalformedRequestError, match=said):
        mirror(tmp_path, stores, url="http://127.0.0.1:1")


def test_a_store_without_an_address_is_told(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("QSS_URL", raising=False)
    with pytest.raises(StoreNotFoundError):
        mirror(tmp_path, "words")


def test_the_program_of_a_container_ends_with_sigterm_behind_a_whole_batch(
    tmp_path: Path, cluster: PodCluster
) -> None:
    query = Query(tmp_path, "dedup-hdfs")
    file = tmp_path / "mirror.yaml"
    file.write_text(f"{{writer: w, stores: [{{store: {cluster.store}, url: '{cluster.url}'}}]}}")
    command = [sys.executable, "-m", "qss_spark.mirroring", str(query.path), str(file)]
    with subprocess.Popen(
        [*command, "--metrics-port", "0"], stderr=subprocess.PIPE, text=True
    ) as program:
        query.commit_all()
        wait_until(lambda: len(rows_in(cluster)) == len(query.expected[""]), WAIT_S)
        program.terminate()
        _, said = program.communicate(timeout=WAIT_S)
    assert program.returncode == 0, said
    assert f"{cluster.store}: batch {query.batches[-1]}: the whole state, 12 rows" in said
    file.write_text("{writer: w, stores: []}")
    refused = subprocess.run(command, capture_output=True, text=True, check=False, timeout=WAIT_S)
    assert (refused.returncode, "1 to 64 stores" in refused.stderr) == (1, True)
    file.write_text(f"{{writer: w, stores: [{{store: {cluster.store}, url: '{cluster.url}'}}]}}")
    command[3] = str(tmp_path / "unmounted")
    lost = subprocess.run(
        [*command, "--directory-wait-s", "0.1"],
        capture_output=True,
        text=True,
        check=False,
        timeout=WAIT_S,
    )
    assert (lost.returncode, "unmounted is no directory" in lost.stderr) == (1, True)


def test_the_manifests_of_the_mirror_are_valid_and_name_metrics_that_are_there(
    tmp_path: Path,
) -> None:
    store, _, _, stores, deployment = yaml.safe_load_all((KUBERNETES / "mirror.yaml").read_text())
    assert validate_resource(store)["metadata"]["name"] == "aircraft-state"
    file = tmp_path / "mirror.yaml"
    file.write_text(stores["data"]["mirror.yaml"])
    (wanted,) = read_wanted(file).stores
    assert (wanted.store, wanted.operator) == ("aircraft-state", 0)
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    token = next(one for one in container["volumeMounts"] if one["name"] == "token")
    assert wanted.token_file == f"{token['mountPath']}/token"
    monitor, rule = yaml.safe_load_all((KUBERNETES / "mirror-alert.yaml").read_text())
    assert monitor["spec"]["podMetricsEndpoints"] == [{"port": container["ports"][0]["name"]}]
    metrics = MirrorMetrics()
    shown = urllib3.request("GET", f"http://127.0.0.1:{metrics.serve(0)}/metrics").data.decode()
    (alert,) = rule["spec"]["groups"][0]["rules"]
    for name in re.findall(r"qss_[a-z_]+", alert["expr"]):
        assert f"# TYPE {name} " in shown
