"""Requests of the client without an event loop, beside which the pod is looked at."""

import threading

import pytest

from qss_client.http.answer import HttpAnswer
from qss_client.http.sync_http import SyncHttp
from qss_core.errors import UnreachableError

POD = "http://pod"


def test_a_request_that_itself_ends_with_a_timeout_is_over() -> None:
    def late() -> HttpAnswer:
        raise TimeoutError("the token's server is late")

    with pytest.raises(TimeoutError, match="the token's server"):
        SyncHttp().watched(POD, late, lambda: True)


def test_few_threads_wait_for_a_silent_pod_however_many_requests_meet_it() -> None:
    http, goes_on = SyncHttp(), threading.Event()
    begun: list[int] = []

    def stands_still() -> HttpAnswer:
        begun.append(1)
        goes_on.wait()
        raise TimeoutError

    def ask() -> None:
        with pytest.raises(UnreachableError):
            http.watched(POD, stands_still, lambda: False)

    try:
        readers = [threading.Thread(target=ask) for _ in range(16)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        for _ in range(20):
            ask()
        assert len(begun) == 16
    finally:
        goes_on.set()
