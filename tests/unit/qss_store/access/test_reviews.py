"""The documents of reviews, and the meaning of their answers."""

import json
from typing import Any

import pytest

from qss_store.access.reviews import (
    Account,
    NoReviewError,
    Reviewed,
    decode_access_review,
    decode_token_review,
    encode_access_review,
    encode_token_review,
)
from qss_store.access.rights import Identities, Right

USER = {"username": "u", "uid": "7", "groups": ["g"], "extra": {"k": ["v"]}}
ACCOUNT = Account(username="u", uid="7", groups=("g",), extra={"k": ("v",)})


def answer(**status: Any) -> bytes:
    return json.dumps({"kind": "x", "metadata": {}, "status": status}).encode()


def test_a_token_is_asked_for_with_its_audience() -> None:
    assert json.loads(encode_token_review("t", ("qss", "all"))) == {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": "t", "audiences": ["qss", "all"]},
    }


def test_a_token_of_the_audience_is_its_accounts() -> None:
    body = answer(authenticated=True, audiences=["other", "qss"], user=USER)
    assert decode_token_review(body, ("qss", "all")) == Reviewed(ACCOUNT, frozenset({"qss"}))


@pytest.mark.parametrize(
    "status",
    [
        {"error": "invalid bearer token"},
        {"authenticated": False, "audiences": ["qss"], "user": USER},
        {"authenticated": True, "audiences": ["other"], "user": USER},
        # From an authenticator that does not check audiences.
        {"authenticated": True, "user": USER},
        {"authenticated": True, "audiences": ["qss"]},
        {"authenticated": True, "audiences": ["qss"], "user": {"username": ""}},
    ],
)
def test_any_other_token_is_nobodys(status: dict[str, Any]) -> None:
    assert decode_token_review(answer(**status), ("qss",)) is None


def test_a_right_is_asked_for_with_everything_a_role_can_be_bound_to() -> None:
    ours = Identities(store="words", namespace="shop", pods="p")
    spec = json.loads(encode_access_review(ACCOUNT, Right.WRITE, ours))["spec"]
    assert spec == {
        "user": "u",
        "uid": "7",
        "groups": ["g"],
        "extra": {"k": ["v"]},
        "resourceAttributes": {
            "group": "queryablestate.dev",
            "resource": "queryablestatestores",
            "subresource": "write",
            "verb": "update",
            "name": "words",
            "namespace": "shop",
        },
    }


def test_only_what_is_allowed_and_not_denied_is_a_right() -> None:
    assert decode_access_review(answer(allowed=True))
    assert not decode_access_review(answer(allowed=False, reason="x", evaluationError="y"))
    assert not decode_access_review(answer(allowed=True, denied=True))


@pytest.mark.parametrize("body", [b"", b"{}", b"\xff", b'{"status": 3}', b'{"status": {"x": 1'])
def test_nonsense_is_no_answer(body: bytes) -> None:
    with pytest.raises(NoReviewError):
        decode_token_review(body, ("qss",))
    with pytest.raises(NoReviewError):
        decode_access_review(body)


@pytest.mark.parametrize(
    "said",
    [
        "invalid bearer token",
        '[invalid bearer token, token audiences ["other"] is invalid for the target audiences '
        '["qss"]]',
    ],
)
def test_a_refusal_as_kubernetes_writes_it_names_nobody(said: str) -> None:
    body = json.dumps({"kind": "TokenReview", "status": {"error": said, "user": {}}}).encode()
    assert decode_token_review(body, ("qss",)) is None
