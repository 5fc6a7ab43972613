"""A commit is completed even if its driver closes the connection."""

import socket
from pathlib import Path

import pyarrow as pa

from qss_client.chunks.chunk import encode_slice
from qss_client.http.sync_http import SyncHttp
from qss_client.writes.batch import open_writer, stage
from qss_core.model import Partitioner
from qss_core.wire.messages import ChunkReference, CommitRequest, encode
from qss_testing.pods.pod_process import PodCluster
from qss_testing.waiting import wait_until


def test_a_commit_whose_driver_disconnects_is_completed(tmp_path: Path) -> None:
    rows = pa.table({"key": pa.array([b"a"]), "value": pa.array([b"1"])})
    # In this test, no maintenance completes a decision that no request drives.
    environment = {"QSS_MAINTENANCE_INTERVAL_S": "3600"}
    with PodCluster(
        tmp_path, pods=2, environment=environment, partitioner=Partitioner.EXPLICIT
    ) as cluster:
        http = SyncHttp()
        run = open_writer(http, cluster.metadata, "job", query_id="q", run_id="r")
        staged = stage(http, run, 0, "t", [encode_slice(number, rows) for number in range(4)])
        chunks: dict[str, tuple[ChunkReference, ...]] = {
            str(one.partition): (one.chunk,) for one in staged
        }
        body = encode(CommitRequest(generation=1, chunks=chunks, position={}, fingerprint="f"))
        path = f"/changelog/stores/words/writers/job/{run.opened.writer_epoch}/batches/0/commit"
        path += f"?storeId={run.opened.store_id}"
        head = f"POST {path} HTTP/1.1\r\nHost: pod\r\nContent-Length: {len(body)}\r\n\r\n"
        coordinator = cluster.pods[0]
        with socket.create_connection(("127.0.0.1", coordinator.ports[1])) as connection:
            connection.sendall(head.encode() + body)
            wait_until(lambda: _sequences(cluster) != [0, 0, 0, 0] or "commit" in _busy(cluster))
        wait_until(lambda: _sequences(cluster) == [1, 1, 1, 1])
        http.close()


def _sequences(cluster: PodCluster) -> list[int]:
    reports = [pod.report() for pod in cluster.pods]
    replicas = [replica for report in reports if report for replica in report.replicas]
    ordered = sorted(replicas, key=lambda one: one.configuration.partition)
    return [replica.sequence for replica in ordered]


def _busy(cluster: PodCluster) -> str:
    """Whether the coordinator has logged the decision: "commit" or an empty text."""
    report = cluster.pods[0].report()
    assert report is not None
    partition_0 = next(one for one in report.replicas if one.configuration.partition == 0)
    return "commit" if partition_0.end_offset > 2 else ""
