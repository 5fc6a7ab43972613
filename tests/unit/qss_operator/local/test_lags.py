"""`qss status` says how far the standbys are behind, and which were not level yet."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import msgspec
import pytest

from qss_core.model import StoreName
from qss_operator.local.status import lags
from qss_operator.local.status.lags import lags_told
from qss_operator.planning.model import PodEndpoints


@pytest.fixture
def partitions() -> dict[str, object]:
    """The lags that the pod tells."""
    return {}


@pytest.fixture
def pod(partitions: dict[str, object]) -> Iterator[PodEndpoints]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = msgspec.json.encode({"ordinal": 1, "partitions": partitions})
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Keeps the output of the tests empty."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    address = f"http://127.0.0.1:{server.server_port}"
    try:
        yield PodEndpoints(query=address, changelog=address)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pod here is a thread of this process, which may be busy."""
    monkeypatch.setattr(lags, "_TIMEOUT_S", 30.0)


def lag(entries: int, seconds: float | None, role: str = "standby") -> dict[str, object]:
    return {"role": role, "lagOffsets": entries, "lagSeconds": seconds}


def test_the_largest_lags_are_told(pod: PodEndpoints, partitions: dict[str, object]) -> None:
    partitions |= {"0": lag(0, 0.8), "1": lag(4, 0.1), "2": lag(9, 3.0, "learner")}
    assert lags_told(StoreName("words"), [pod]) == [
        "standbys: at most 4 entries to apply (partition 1 on pod 1), at most 0.8 s behind their "
        "actives",
        "learners: at most 9 entries to apply (partition 2 on pod 1), at most 3.0 s behind their "
        "actives",
    ]


def test_a_standby_that_was_never_level_is_not_told_as_level(
    pod: PodEndpoints, partitions: dict[str, object]
) -> None:
    partitions |= {"0": lag(7, None)}
    assert lags_told(StoreName("words"), [pod]) == [
        "standbys: at most 7 entries to apply (partition 0 on pod 1), 1 not level with its active "
        "yet"
    ]
    partitions |= {"1": lag(0, 0.5), "2": lag(0, None)}
    assert lags_told(StoreName("words"), [pod]) == [
        "standbys: at most 7 entries to apply (partition 0 on pod 1), at most 0.5 s behind their "
        "actives, 2 not level with their active yet"
    ]
