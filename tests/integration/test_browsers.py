"""A page in a browser can neither stop a job nor read rows of a local store."""

import http.client
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from qss_testing.pods.pod_process import PodCluster
from qss_testing.writers.writer import Record, Writer

TAKE_OVER = json.dumps({"queryId": "evil", "runId": "e", "openId": "e1", "takeOver": True})


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[PodCluster]:
    with PodCluster(tmp_path, pods=1, environment={"QSS_ALLOWED_HOSTS": "named.example"}) as pods:
        yield pods


def ask(port: int, method: str, path: str, body: str | None = None, **headers: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request(method, path, body, headers)
    response = connection.getresponse()
    response.read()
    connection.close()
    return response.status


def test_a_page_may_neither_stop_a_job_nor_read(cluster: PodCluster) -> None:
    pod = cluster.pods[0]
    query, internal, ops = pod.ports
    store_id = cluster.assignment.definition.store_id
    path = f"/changelog/stores/{cluster.store}/writers/job?storeId={store_id}"
    get = f"/state/stores/{cluster.store}/a"
    with Writer(pod.internal, cluster.store, "job") as writer:
        writer.write([Record("a", 1)])
        simple = {"Content-Type": "text/plain", "Origin": "http://evil.example"}
        for port in (query, internal):
            assert ask(port, "POST", path, TAKE_OVER, **simple) == 403
            assert ask(port, "POST", path, TAKE_OVER, Host="evil.example") == 403
        assert ask(query, "GET", get, Host=f"evil.example:{query}") == 403
        assert ask(query, "GET", get, Origin="null") == 403
        assert ask(query, "GET", get, Host=f"evil.example:{query}", Accept="text/html") == 403
        assert ask(ops, "GET", "/metrics", Host="evil.example") == 403
        assert ask(ops, "GET", "/metrics", Origin="http://evil.example") == 403
        for host in (f"127.0.0.1:{ops}", "localhost", "named.example"):
            assert ask(ops, "GET", "/livez", Host=host) == 200
        for host in (f"127.0.0.1:{query}", "localhost", "named.example"):
            assert ask(query, "GET", get, Host=host) == 200
        assert ask(query, "GET", get, Origin=f"http://127.0.0.1:{query}") == 200
        writer.write([Record("a", 2)])
