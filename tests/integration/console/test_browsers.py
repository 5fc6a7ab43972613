"""A page in a browser can neither stop a job nor read rows of a local store, unless listed."""

import http.client
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from qss_testing.fakes.reviewer import Reviewer, make_token
from qss_testing.pods.guarded import READER, guarded, rights
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


class Page:
    """A page of an origin; it asks as a browser does."""

    def __init__(self, port: int, origin: str) -> None:
        self._port, self._origin = port, origin

    def ask(self, method: str, path: str, **headers: str) -> tuple[int, dict[str, str]]:
        """The status and the headers of the answer, in lower case."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        connection.request(method, path, headers={"Origin": self._origin, **headers})
        response = connection.getresponse()
        response.read()
        connection.close()
        return response.status, {name.lower(): value for name, value in response.getheaders()}


def test_a_page_of_a_listed_origin_reads_answers_and_failures(tmp_path: Path) -> None:
    listed = {"QSS_ALLOWED_ORIGINS": "https://console.example, http://localhost:5173"}
    asks = {"Access-Control-Request-Method": "GET", "Access-Control-Request-Headers": "etag"}
    with PodCluster(tmp_path, environment=listed) as cluster:
        with Writer(cluster.url, cluster.store) as writer:
            writer.write([Record("a", 1)])
        query, internal, _ = cluster.pods[0].ports
        rows = f"/state/stores/{cluster.store}"
        page = Page(query, "https://console.example")
        for path, accept, status in (
            (f"{rows}/a", "application/json", 200),
            (f"{rows}/none", "application/json", 404),
            (rows, "application/x-ndjson", 200),
            ("/nowhere", "*/*", 404),
        ):
            code, headers = page.ask("GET", path, Accept=accept)
            assert (code, headers["access-control-allow-origin"]) == (
                status,
                "https://console.example",
            )
            assert "ETag" in headers["access-control-expose-headers"]
            assert "Origin" in headers["vary"]
            assert "access-control-allow-credentials" not in headers
        code, headers = page.ask("OPTIONS", f"{rows}/a", **asks)
        assert code == 204
        assert headers["access-control-allow-origin"] == "https://console.example"
        assert "If-None-Match" in headers["access-control-allow-headers"]
        assert "GET" in headers["access-control-allow-methods"]
        other = Page(query, "https://evil.example")
        for method, status in (("OPTIONS", 403), ("GET", 403)):
            code, headers = other.ask(method, f"{rows}/a", **asks)
            assert (code, "access-control-allow-origin" in headers) == (status, False)
        # Writers are no pages: the internal port shares nothing.
        code, headers = Page(internal, "https://console.example").ask("OPTIONS", "/control", **asks)
        assert (code == 204, "access-control-allow-origin" in headers) == (False, False)


def test_a_store_with_tokens_answers_the_question_of_a_browser_without_one(tmp_path: Path) -> None:
    listed = {"QSS_ALLOWED_ORIGINS": "https://console.example"}
    asks = {"Access-Control-Request-Method": "GET"}
    with (
        Reviewer(rights()) as reviewer,
        guarded(tmp_path, reviewer, environment=listed) as cluster,
    ):
        path = f"/state/stores/{cluster.store}/a"
        page = Page(cluster.pods[0].ports[0], "https://console.example")
        token = f"Bearer {make_token(READER)}"
        answers = [
            page.ask("OPTIONS", path, **asks),
            page.ask("GET", path),
            page.ask("GET", path, Authorization=token),
        ]
        assert [code for code, _ in answers] == [204, 401, 404]
        for _, headers in answers:
            assert headers["access-control-allow-origin"] == "https://console.example"
        other = Page(cluster.pods[0].ports[0], "https://evil.example")
        code, headers = other.ask("GET", path, Authorization=token)
        assert (code, "access-control-allow-origin" in headers) == (404, False)
        assert other.ask("OPTIONS", path, **asks)[0] != 204
