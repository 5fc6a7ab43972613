"""A pod logs its assignments and the requests that it refused."""

import logging

import pytest

from qss_core.errors import MalformedRequestError, WrongStoreError
from qss_store.http.refusal_log import RefusalLog
from qss_testing.fakes.virtual_time import SetClock


def test_a_refusal_is_logged_once_a_minute_without_what_was_asked(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    clock = SetClock()
    log = RefusalLog("query", clock)
    for key in ("a", "b", "c"):
        log.refused("GET", "/state/get/{key}", MalformedRequestError(f"key {key} is no number"))
    log.refused("GET", "/state/get/{key}", WrongStoreError("no"))
    assert caplog.messages == [
        "refused GET /state/get/{key} (query): MALFORMED_REQUEST (400)",
        "refused GET /state/get/{key} (query): WRONG_STORE (409)",
    ]
    clock.now_s += 61.0
    log.refused("GET", "/state/get/{key}", MalformedRequestError("key d is no number"))
    assert caplog.messages[-1].endswith("(400), and 2 more since the last line")
    assert "is no number" not in caplog.text
