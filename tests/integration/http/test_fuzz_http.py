"""A pod answers or refuses whatever is sent to it, does not crash, and bounds its memory."""

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from qss_client.chunks.chunk import encode_slice
from qss_client.http.sync_http import SyncHttp
from qss_client.writes.batch import WRITE_LIMITS, Run, discover, open_writer
from qss_core.model import StoreType
from qss_core.queries.types import QUERY_TYPES
from qss_testing.pods.pod_process import PodCluster
from qss_testing.pods.timed_stores import SESSION, WINDOW

pytestmark = pytest.mark.long

MANY = settings(
    max_examples=150,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
# The statuses that a pod may answer; every other one is a crash, or an error of another party.
EXPECTED = {200, 400, 404, 405, 406, 409, 411, 413, 414, 415, 421, 503, 504}
MEMORY_BYTES_MAX = 400 * 1024 * 1024
KINDS: dict[str, dict[str, Any]] = {
    "KeyValue": {"format": "TimestampedWithHeaders"},
    "Window": WINDOW,
    "Session": SESSION,
    "Versioned": {
        "type": StoreType.VERSIONED,
        "format": "Plain",
        "history_retention_ms": 3_600_000,
    },
}

TEXTS = st.text(max_size=20) | st.sampled_from(
    ["a", "k5", "0", "-1", "RangeQuery", "2013-01-01T00:00:00Z", "9999999999999999999", "\x00", ""]
)
NUMBERS = (
    st.integers(-(2**70), 2**70)
    | st.floats()
    | st.sampled_from([0, 1, -1, 2**31, 2**63 - 1, 2**63])
)
JSONS = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
MEMBERS = [
    "key",
    "lower",
    "upper",
    "prefix",
    "order",
    "timeFrom",
    "timeTo",
    "keyFrom",
    "keyTo",
    "start",
    "end",
    "endFrom",
    "startTo",
    "asOfTimestamp",
    "fromTime",
    "toTime",
    "skipCache",
    "type",
]
QUERIES = st.builds(
    lambda name, members: {"type": name, **members},
    st.sampled_from(list(QUERY_TYPES)),
    st.dictionaries(st.sampled_from(MEMBERS), JSONS, max_size=4),
)
OF_REQUESTS = [
    "partitions",
    "partition",
    "requireActive",
    "positionBound",
    "isolation",
    "limit",
    "cursor",
    "executionInfo",
    "times",
    "maxStaleness",
    "nothing",
]
REQUESTS = st.builds(
    lambda query, members: {"query": query, **members},
    QUERIES | JSONS,
    st.dictionaries(st.sampled_from(OF_REQUESTS), JSONS, max_size=3),
)
PARAMETERS = [
    "from",
    "to",
    "prefix",
    "order",
    "limit",
    "cursor",
    "partitions",
    "positionBound",
    "scope",
    "keyFrom",
    "keyTo",
    "endFrom",
    "startTo",
    "asOf",
    "times",
    "orderBy",
    "isolation",
    "start",
]


class Fuzzed:
    """A pod with some rows, and a plain connection to it."""

    def __init__(self, cluster: PodCluster, run: Run) -> None:
        self.cluster = cluster
        self.run = run
        self.pod = cluster.pods[0]
        self._query = http.client.HTTPConnection("127.0.0.1", self.pod.ports[0], timeout=60)
        self._internal = http.client.HTTPConnection("127.0.0.1", self.pod.ports[1], timeout=60)

    def close(self) -> None:
        self._query.close()
        self._internal.close()

    def ask(self, method: str, path: str, body: bytes | None = None) -> bytes:
        """Sends to the query port; returns the body of an allowed answer."""
        return self._send(self._query, method, path, body, "application/json")

    def stage(self, number: int, chunk: bytes) -> bytes:
        """Sends a chunk of a batch that is never committed."""
        opened = self.run.opened
        batch = f"/changelog/stores/words/writers/fuzz/{opened.writer_epoch}/batches/0"
        named = f"generation={opened.generation}&storeId={opened.store_id}"
        path = f"{batch}/chunks/{opened.writer_epoch}.t.{number}?{named}"
        return self._send(self._internal, "PUT", path, chunk, "application/vnd.apache.arrow.stream")

    def _send(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        body: bytes | None,
        media: str,
    ) -> bytes:
        connection.request(method, path, body, {"Content-Type": media})
        with connection.getresponse() as answer:
            data = answer.read()
            assert answer.status in EXPECTED, (answer.status, method, path, body, data[:500])
            if answer.status != 200:
                problem = json.loads(data)
                assert problem["code"]
                assert problem["detail"]
        return data


@pytest.fixture(scope="module", params=KINDS)
def fuzzed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Fuzzed]:
    directory: Path = tmp_path_factory.mktemp("fuzz")
    members = KINDS[request.param]
    with PodCluster(directory, pods=1, partitions=2, **members) as cluster:
        http = SyncHttp()
        metadata = discover(http, cluster.url, cluster.store, WRITE_LIMITS)
        run = open_writer(http, metadata, "fuzz", query_id="q", run_id="r")
        pod = Fuzzed(cluster, run)
        yield pod
        # The pod still serves, has not grown, and has logged no unexpected error.
        assert json.loads(pod.ask("GET", "/state/count/words"))["count"] is not None
        assert "Traceback" not in pod.pod.log()
        process = pod.pod.process
        assert process is not None
        assert process.poll() is None
        status = Path(f"/proc/{process.pid}/status").read_text()
        (resident,) = (line.split()[1] for line in status.splitlines() if "VmRSS" in line)
        assert int(resident) * 1024 < MEMORY_BYTES_MAX
        pod.close()
        http.close()


@MANY
@given(REQUESTS)
def test_any_query(fuzzed: Fuzzed, request_: Any) -> None:
    fuzzed.ask("POST", "/state/query/words", json.dumps(request_).encode())


@MANY
@given(REQUESTS, st.integers(0, 400), st.binary(min_size=1, max_size=6))
def test_any_bytes_in_a_query(fuzzed: Fuzzed, request_: Any, at: int, damage: bytes) -> None:
    body = bytearray(json.dumps(request_).encode())
    body[at % len(body) : at % len(body) + len(damage)] = damage
    fuzzed.ask("POST", "/state/query/words", bytes(body))


@MANY
@given(JSONS, st.dictionaries(st.sampled_from(OF_REQUESTS), JSONS, max_size=3))
def test_any_batch_get(fuzzed: Fuzzed, keys: Any, members: dict[str, Any]) -> None:
    fuzzed.ask("POST", "/state/get/words", json.dumps({"keys": keys, **members}).encode())


@MANY
@given(
    st.sampled_from(["stores", "windows", "sessions", "versions", "count"]),
    st.none() | TEXTS,
    st.dictionaries(st.sampled_from(PARAMETERS), TEXTS | NUMBERS.map(str), max_size=4),
)
def test_any_path(fuzzed: Fuzzed, kind: str, key: str | None, given_: dict[str, str]) -> None:
    tail = "" if key is None else f"/{_quoted(key)}"
    query = "&".join(f"{name}={_quoted(value)}" for name, value in given_.items())
    fuzzed.ask("GET", f"/state/{kind}/words{tail}?{query}")


@MANY
@given(st.data())
def test_damaged_cursors_and_positions(fuzzed: Fuzzed, data: st.DataObject) -> None:
    kind = {"KeyValue": "stores", "Window": "windows", "Session": "sessions"}.get(
        str(fuzzed.cluster.assignment.definition.type), "versions"
    )
    token = data.draw(st.binary(max_size=60) | st.just(b"")).hex()
    name = data.draw(st.sampled_from(["cursor", "positionBound"]))
    fuzzed.ask("GET", f"/state/{kind}/words?{name}={token}")
    text = data.draw(TEXTS | st.text("ABCDEFabcdef0123456789-_=", max_size=80))
    fuzzed.ask("GET", f"/state/{kind}/words?{name}={_quoted(text)}")


CHUNK = bytes(
    encode_slice(
        0,
        pa.table(
            {
                "key": pa.array([b"alpha", b"beta"], pa.binary()),
                "value": pa.array([b"1", None], pa.binary()),
                "timestamp": pa.array([5, None], pa.int64()),
            }
        ),
    ).data
)


@MANY
@given(
    st.integers(0, len(CHUNK) - 1),
    st.binary(min_size=1, max_size=12) | st.just((2**60).to_bytes(8, "little")),
    st.integers(0, len(CHUNK)),
)
def test_damaged_chunks(fuzzed: Fuzzed, at: int, damage: bytes, cut: int) -> None:
    body = bytearray(CHUNK)
    body[at : at + len(damage)] = damage
    fuzzed.stage(at, bytes(body))
    fuzzed.stage(len(CHUNK) + at, bytes(body[:cut]))


def _quoted(text: str) -> str:
    return quote(text.encode("utf-8", "surrogatepass"), safe="")
