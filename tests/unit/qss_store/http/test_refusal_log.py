"""A pod logs its assignments and the requests that it refused."""

import logging

import pytest

from qss_core.errors import MalformedRequestError, WrongStoreError
from qss_store.http.refusal_log import RefusalLog


class Seconds:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_refusal_is_logged_once_a_minute_without_what_was_asked(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    seconds = Seconds()
    log = RefusalLog("query", seconds)
    for key in ("a", "b", "c"):
        log.refused("GET", "/state/get/{key}", MalformedRequestError(f"key {key} is no number"))
    log.refused("GET", "/state/get/{key}", WrongStoreError("no"))
    assert caplog.messages == [
        "refused GET /state/get/{key} (query): MALFORMED_REQUEST (400)",
        "refused GET /state/get/{key} (query): WRONG_STORE (409)",
    ]
    seconds.now = 61.0
    log.refused("GET", "/state/get/{key}", MalformedRequestError("key d is no number"))
    assert caplog.messages[-1].endswith("(400), and 2 more since the last line")
    assert "is no number" not in caplog.text
