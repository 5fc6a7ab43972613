"""An answer of the API server becomes an error that says what to do."""

import json
from typing import Any

import pytest

from qss_core.errors import Retry, StoreError
from qss_operator.errors import ConflictError
from qss_operator.kubernetes.api.errors import (
    AlreadyExistsError,
    ApiUnavailableError,
    ForbiddenError,
    GoneError,
    InvalidError,
    KindNotServedError,
    NotFoundError,
    RefusedError,
    ThrottledError,
    UnauthorizedError,
    error_of,
)
from qss_operator.kubernetes.api.kinds import PODS
from qss_operator.kubernetes.api.requests import get_request

UNREADABLE = (
    "unable to convert unstructured object to apps/v1, Kind=StatefulSet: quantities must match "
    "the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
REQUEST = get_request(PODS, "shop", "words-0")


def status(reason: str = "", message: str = "why", **details: Any) -> bytes:
    document = {"kind": "Status", "reason": reason, "message": message, "details": details}
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    ("code", "body", "expected"),
    [
        (400, status("BadRequest"), RefusedError),
        (401, status("Unauthorized"), UnauthorizedError),
        (403, status("Forbidden"), ForbiddenError),
        (404, status("NotFound", name="words-0"), NotFoundError),
        (404, status("NotFound"), KindNotServedError),
        (404, b"404 page not found\n", KindNotServedError),
        (404, b'{"kind": "Status", "details": 3}', KindNotServedError),
        (
            404,
            b'{"kind": "Pod", "reason": "NotFound", "details": {}}',
            KindNotServedError,
        ),
        (405, status("MethodNotAllowed"), RefusedError),
        (409, status("AlreadyExists"), AlreadyExistsError),
        (409, status("Conflict"), ConflictError),
        (409, b"", ConflictError),
        (410, status("Expired"), GoneError),
        (413, status("RequestEntityTooLarge"), RefusedError),
        (422, status("Invalid"), InvalidError),
        (429, status("TooManyRequests"), ThrottledError),
        (500, status("InternalError"), ApiUnavailableError),
        (500, status("", "failed to create typed patch object (x; y): .spec.z"), InvalidError),
        (500, status("", UNREADABLE), InvalidError),
        (503, b"\xff\xfe", ApiUnavailableError),
        (504, status("Timeout"), ApiUnavailableError),
        (302, b"", RefusedError),
    ],
)
def test_an_answers_error(code: int, body: bytes, expected: type[StoreError]) -> None:
    error = error_of(code, body, REQUEST)
    assert type(error) is expected
    assert "get pods words-0 in the namespace shop" in error.message


def test_only_what_passes_by_waiting_says_so() -> None:
    later = {code for code in range(400, 600) if error_of(code, b"", REQUEST).retry is Retry.LATER}
    assert later == {409, 410, 429, *range(500, 600)}


def test_a_missing_permission_says_what_a_role_must_allow() -> None:
    message = (
        'statefulsets.apps "words" is forbidden: User "system:serviceaccount:qss:operator" cannot '
        'patch resource "statefulsets/scale" in API group "apps" in the namespace "shop"'
    )
    error = error_of(403, status("Forbidden", message), REQUEST)
    assert isinstance(error, ForbiddenError)
    assert error.is_permission
    assert error.details == {
        "verb": "patch",
        "resource": "statefulsets/scale",
        "namespace": "shop",
    }
    for word in ("may not patch statefulsets/scale", "namespace shop", '"apps"', "qss:operator"):
        assert word in error.message


def test_a_missing_permission_for_all_namespaces() -> None:
    denied = 'User "u" cannot list resource "nodes" in API group "" at the cluster scope'
    message = f"nodes is forbidden: {denied}"
    error = error_of(403, status("Forbidden", message), REQUEST)
    assert "may not list nodes cluster-wide" in error.message


def test_a_refusal_by_admission_is_no_missing_permission() -> None:
    body = status("Forbidden", 'pods "words-0" is forbidden: exceeded quota: small')
    error = error_of(403, body, REQUEST)
    assert isinstance(error, ForbiddenError)
    assert not error.is_permission
    assert "exceeded quota" in error.message


@pytest.mark.parametrize(
    ("header", "seconds", "expected"),
    [
        (None, None, {}),
        ("2", None, {"retry_after_ms": 2000}),
        (None, 3, {"retry_after_ms": 3000}),
        ("2", 3, {"retry_after_ms": 3000}),
        ("soon", None, {}),
        ("-1", None, {}),
        ("²", None, {}),
        ("0", 0, {}),
    ],
)
def test_the_servers_wish_to_wait_is_kept(
    header: str | None, seconds: int | None, expected: dict[str, int]
) -> None:
    details: dict[str, Any] = {} if seconds is None else {"retryAfterSeconds": seconds}
    assert error_of(429, status(**details), REQUEST, header).details == expected
    assert error_of(503, status(**details), REQUEST, header).details == expected


def test_the_causes_and_the_message_are_bounded() -> None:
    causes = [{"field": f"spec.f{number}", "message": "no"} for number in range(100)]
    error = error_of(422, status("Invalid", "x" * 100_000, causes=causes), REQUEST)
    assert isinstance(error, InvalidError)
    assert len(error.causes) == 16
    assert len(error.message) <= 2048
