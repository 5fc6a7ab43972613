"""The probes, metrics and logs of a pod are true, and contain no key and no value."""

import logging
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import urllib3
from prometheus_client.parser import text_string_to_metric_families

from qss_client.chunks.chunk import encode_slice
from qss_client.writes.batch import Run, stage
from qss_core.errors import StoreError
from qss_core.model import Offset
from qss_store.runtime.loop_monitor import REST_TICK_S
from qss_testing.fakes.virtual_time import SetClock
from qss_testing.pods.pod_process import PodCluster
from qss_testing.pods.write_cluster import table_of, write_cluster
from qss_testing.waiting import wait_until
from qss_testing.writers.process_writer import IMPATIENT, ProcessWriter

PARTITIONS = 2
STALL_S = 0.3


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PodCluster]:
    cluster = PodCluster(tmp_path_factory.mktemp("health"), pods=1, partitions=PARTITIONS)
    try:
        cluster.pods[0].start()
        yield cluster
    finally:
        cluster.pods[0].kill()


def get(cluster: PodCluster, path: str) -> tuple[int, str]:
    answer = urllib3.request("GET", cluster.pods[0].ops + path, retries=False)
    return answer.status, answer.data.decode()


def metrics(cluster: PodCluster) -> dict[str, float]:
    """The values by name, followed by the partition if there is one."""
    _, text = get(cluster, "/metrics")
    return {
        sample.name + sample.labels.get("partition", ""): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_a_pod_without_an_assignment_is_alive_and_not_ready(cluster: PodCluster) -> None:
    assert get(cluster, "/livez") == (200, "ok\n")
    assert get(cluster, "/readyz") == (503, "waiting for an assignment\n")
    cluster.assign(cluster.pods[0])
    assert get(cluster, "/readyz") == (200, "ok\n")


def test_the_metrics_count_staged_and_committed_rows(cluster: PodCluster) -> None:
    cluster.assign(cluster.pods[0])
    before = metrics(cluster)
    writer = ProcessWriter(cluster, "counted")
    run = writer.open()
    rows = writer.rows_of("x")
    slices = [encode_slice(partition, table_of(of_it)) for partition, of_it in rows.items()]
    staged = stage(writer.http, run, 0, "t", slices, IMPATIENT)
    held = metrics(cluster)
    assert held["qss_staged_bytes"] == sum(len(one.data) for one in slices)
    assert held["qss_uncommitted_bytes"] == 0
    assert held["qss_commits_total"] == before["qss_commits_total"]
    writer.commit(0, staged)
    writer.close()
    after = metrics(cluster)
    assert after["qss_staged_bytes"] == 0
    assert after["qss_commits_total"] == before["qss_commits_total"] + PARTITIONS
    assert after["qss_committed_records_total"] == before["qss_committed_records_total"] + 2
    assert after["qss_commit_latency_maximum_seconds"] > 0
    # The coordinator logs the completion of the batch after its answer.
    wait_until(lambda: offsets(cluster) is not None)


def offsets(cluster: PodCluster) -> list[Offset] | None:
    """The ends of all logs, if all entries are applied and the metrics agree; else None."""
    told = metrics(cluster)
    report = cluster.pods[0].report()
    assert report is not None
    ends = [replica.end_offset for replica in report.replicas]
    applied = [replica.applied_offset for replica in report.replicas]
    numbers = [replica.configuration.partition for replica in report.replicas]
    shown = [told[f"qss_applied_offset{number}"] for number in numbers]
    return ends if shown == applied == ends else None


def test_a_stall_of_the_event_loop_is_measured(cluster: PodCluster) -> None:
    process = cluster.pods[0].process
    assert process is not None
    metrics(cluster)
    os.kill(process.pid, signal.SIGSTOP)
    state = Path(f"/proc/{process.pid}/stat")
    wait_until(lambda: state.read_text().rsplit(")", 1)[1].split()[0] == "T")
    stopped_s = time.monotonic()
    wait_until(lambda: time.monotonic() > stopped_s + STALL_S)
    os.kill(process.pid, signal.SIGCONT)
    told_s = STALL_S - REST_TICK_S - 0.02  # A stall that begins in a sleep is reported shorter.
    wait_until(lambda: metrics(cluster)["qss_loop_stall_maximum_seconds"] > told_s)
    assert get(cluster, "/livez") == (200, "ok\n")


def test_no_key_and_no_value_is_logged_or_counted(cluster: PodCluster) -> None:
    cluster.assign(cluster.pods[0])
    writer = ProcessWriter(cluster, "discreet")
    run = writer.open()
    marked = writer.rows_of("marker-value")
    secret = {p: {b"marker-%d" % p: b'"marker-value"', **rows} for p, rows in marked.items()}
    for rows in (secret, {0: {b"marker-null": None}, 1: {b"marker-null": None}}):
        with pytest.raises(StoreError):  # One key belongs to another partition.
            writer.stage(0, rows, IMPATIENT)
    ask_badly(cluster, run)
    writer.commit(0, writer.stage(0, marked))
    key = next(iter(marked[0])).decode()
    writer.http.request("GET", f"{cluster.pods[0].query}/state/stores/words/{key}")
    assert set(writer.values(cluster.pods[0]).values()) == {"marker-value"}
    cluster.pods[0].kill()
    cluster.pods[0].start()
    wait_until(lambda: get(cluster, "/readyz")[0] == 200)
    writer.close()
    for told in (cluster.pods[0].log(), get(cluster, "/metrics")[1], get(cluster, "/readyz")[1]):
        assert "marker" not in told
        assert key not in told


def ask_badly(cluster: PodCluster, run: Run) -> None:
    """Sends requests that are refused, with a marker in each part."""
    pod = cluster.pods[0]
    path = f"{pod.internal}/changelog/stores/words/writers/marker/1/batches/0"
    for method, url, body in [
        ("POST", f"{path}/commit", b'{"marker-key": "marker-value"}'),
        ("POST", f"{path}/commit?marker=1", b"{}"),
        ("PUT", f"{path}/chunks/1.marker.0?generation=1", b"marker-value"),
        ("GET", f"{pod.query}/state/stores/words/marker-key", None),
        ("GET", f"{pod.query}/state/stores/words/marker-key/marker", None),
        ("POST", f"{pod.query}/state/query/words", b'{"query": {"marker": "marker-value"}}'),
    ]:
        answer = urllib3.request(method, url, body=body, retries=False)
        assert answer.status in (400, 404), answer.data
    assert run.opened.generation == 1


async def test_a_pod_whose_event_loop_stands_still_is_not_alive(tmp_path: Path) -> None:
    clock = SetClock()
    async with write_cluster(tmp_path, pods=1, clock=clock) as cluster:
        ops = cluster.pods[0].ops
        clock.now_s += 9.9
        assert (await ops.get("/livez")).status == 200
        clock.now_s += 0.2
        stalled = await ops.get("/livez")
        assert (stalled.status, stalled.body) == (503, b"stalled\n")


async def test_a_pod_logs_each_assignment_that_it_takes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "qss_store")
    async with write_cluster(tmp_path, pods=1, partitions=2) as cluster:
        lines = [line for line in caplog.messages if line.startswith("took an assignment")]
        told = cluster.definition
        assert lines == [
            f"took an assignment: store {told.name} (id {told.store_id}) of 1 pods, "
            "partitions 0 (epoch 1), 1 (epoch 1)"
        ]
