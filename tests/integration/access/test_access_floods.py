"""While some callers cause many reviews on a guarded pod, other callers are admitted."""

import http.client
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from qss_core.errors import AccessUnknownError
from qss_store.access.review_limits import OF_ADDRESS_MAX, REFUSED_BURST, REFUSED_PER_S
from qss_testing.fakes.reviewer import COMMON, Reviewer, make_token
from qss_testing.pods.guarded import (
    OPERATOR,
    PODS,
    READER,
    STORE,
    STRANGER,
    get_json,
    guarded,
    metric,
    rights,
)
from qss_testing.pods.pod_process import PodCluster
from qss_testing.waiting import wait_until

pytestmark = pytest.mark.long

PATH = f"/state/stores/{STORE}/k"
FLOODERS = 40


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[PodCluster, Reviewer]]:
    # No refusal expires while a slow machine asks a thousand times.
    environment = {"QSS_ACCESS_NEGATIVE_S": "600"}
    with (
        Reviewer(rights()) as reviewer,
        guarded(tmp_path, reviewer, environment=environment) as cluster,
    ):
        yield cluster, reviewer


def ask(connection: http.client.HTTPConnection, header: str) -> int:
    connection.request("GET", PATH, headers={"Authorization": header})
    response = connection.getresponse()
    response.read()
    return response.status


def spelled(number: int, token: str) -> str:
    """The header of one token, written differently for each number."""
    word = "".join(c.upper() if number >> at & 1 else c for at, c in enumerate("bearer"))
    return word + " " * (1 + number // 64) + token


def test_one_token_costs_one_review_however_it_is_spelled(
    cluster: tuple[PodCluster, Reviewer],
) -> None:
    pods, reviewer = cluster
    connection = http.client.HTTPConnection("127.0.0.1", pods.pods[0].ports[0], timeout=30)
    reader, stranger = make_token(READER), make_token(STRANGER)
    assert ask(connection, f"Bearer {reader}") == 404
    before = len(reviewer.server.asked)
    assert {ask(connection, spelled(number, stranger)) for number in range(1100)} == {403}
    assert len(reviewer.server.asked) - before == 2
    reviewer.go_away()
    assert ask(connection, f"Bearer {reader}") == 404
    connection.close()


@contextmanager
def flood(port: int) -> Iterator[None]:
    """Sends garbage tokens from an address of their own, as fast as the answers come."""
    is_over = threading.Event()

    def run(first: int) -> None:
        connection = http.client.HTTPConnection(
            "127.0.0.1", port, timeout=30, source_address=("127.0.0.2", 0)
        )
        number = first
        while not is_over.is_set():
            ask(connection, f"Bearer garbage{number}")
            number += FLOODERS
        connection.close()

    threads = [threading.Thread(target=run, args=(first,)) for first in range(FLOODERS)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


def test_a_flood_of_garbage_keeps_no_new_caller_out(cluster: tuple[PodCluster, Reviewer]) -> None:
    pods, reviewer = cluster
    pod = pods.pods[0]
    line = 'qss_access_reviews_total{result="denied",review="token"}'
    with flood(pod.ports[0]):
        started, before = time.monotonic(), metric(pod, line)
        wait_until(lambda: metric(pod, line) - before >= REFUSED_BURST)
        for serial in range(200):
            get_json(f"{pods.url}/state/stores/{STORE}", token=make_token(READER, serial=serial))
        denied = metric(pod, line) - before
        pace = REFUSED_BURST + OF_ADDRESS_MAX + REFUSED_PER_S * (time.monotonic() - started)
        assert denied <= pace, "the flood keeps its pace"
    assert reviewer.server.asked


def test_an_api_server_that_refuses_garbage_revokes_tokens_all_the_same(tmp_path: Path) -> None:
    environment = {"QSS_ACCESS_POSITIVE_S": "0.5", "QSS_ACCESS_NEGATIVE_S": "0.2"}
    with (
        Reviewer(rights()) as reviewer,
        guarded(tmp_path, reviewer, environment=environment) as pods,
    ):
        url, reader = f"{pods.url}/state/stores/{STORE}", make_token(READER)
        get_json(url, token=reader)
        reviewer.refuse("garbage")
        del reviewer.rights[READER]

        def is_refused() -> bool:
            with pytest.raises(AccessUnknownError):
                get_json(url, token="garbage")
            connection = http.client.HTTPConnection("127.0.0.1", pods.pods[0].ports[0])
            status = ask(connection, f"Bearer {reader}")
            connection.close()
            return status == 401

        wait_until(is_refused)


def test_a_token_for_another_store_opens_nothing(cluster: tuple[PodCluster, Reviewer]) -> None:
    pods, _ = cluster
    connection = http.client.HTTPConnection("127.0.0.1", pods.pods[0].ports[0], timeout=30)
    for audience in (COMMON, "queryablestate.dev/shop/birds"):
        assert ask(connection, f"Bearer {make_token(READER, audience=audience)}") == 401
    connection.close()


def test_readers_may_use_the_common_audience_where_it_is_allowed_and_nobody_else(
    tmp_path: Path,
) -> None:
    with (
        Reviewer(rights()) as reviewer,
        guarded(tmp_path, reviewer, ("--common-audience", COMMON)) as pods,
    ):
        pod = pods.pods[0]
        connection = http.client.HTTPConnection("127.0.0.1", pod.ports[0], timeout=30)
        assert ask(connection, f"Bearer {make_token(READER, audience=COMMON)}") == 404
        connection.close()
        control = http.client.HTTPConnection("127.0.0.1", pod.ports[1], timeout=30)
        assert asks_for_control(control, OPERATOR, COMMON) == 403
        assert asks_for_control(control, PODS, COMMON) == 403
        assert asks_for_control(control, OPERATOR, None) == 401
        control.close()


def test_while_pods_are_upgraded_other_pods_alone_may_use_the_audience_of_older_ones(
    tmp_path: Path,
) -> None:
    with (
        Reviewer(rights()) as reviewer,
        guarded(tmp_path, reviewer, ("--peers-audience", COMMON)) as pods,
    ):
        control = http.client.HTTPConnection("127.0.0.1", pods.pods[0].ports[1], timeout=30)
        assert asks_for_control(control, PODS, COMMON) == 200
        assert asks_for_control(control, OPERATOR, COMMON) == 401
        assert asks_for_control(control, READER, COMMON) == 401
        control.close()
        connection = http.client.HTTPConnection("127.0.0.1", pods.pods[0].ports[0], timeout=30)
        assert ask(connection, f"Bearer {make_token(READER, audience=COMMON)}") == 401
        connection.close()


def asks_for_control(
    connection: http.client.HTTPConnection, account: str, audience: str | None
) -> int:
    """The status of a request that only the operator and the pods may send."""
    token = make_token(account, audience=audience)
    connection.request("GET", "/control/replicas", headers={"Authorization": f"Bearer {token}"})
    response = connection.getresponse()
    response.read()
    return response.status
