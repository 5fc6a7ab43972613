"""Bearer tokens: parsing of the header, and the unverified claims of a token."""

import math

import pytest

from qss_core.errors import UnauthenticatedError
from qss_store.access.token_claims import (
    TOKEN_BYTES_MAX,
    Audiences,
    Claims,
    bearer_token,
    claims_of,
    digest_of,
    refusal_text,
    seconds_left,
    why_invalid,
)
from qss_testing.fakes.reviewer import make_token


@pytest.mark.parametrize("header", ["Bearer abc", "bearer abc", "BEARER  abc "])
def test_the_scheme_is_read_in_any_case(header: str) -> None:
    assert bearer_token(header) == "abc"


@pytest.mark.parametrize("header", [None, "", "Basic YTpi", "Bearer", "abc", "Token abc"])
def test_anything_but_a_bearer_token_is_refused(header: str | None) -> None:
    with pytest.raises(UnauthenticatedError, match="Authorization: Bearer TOKEN"):
        bearer_token(header)


@pytest.mark.parametrize(
    "token", ["", "a b", 'a"b', "a\udc80", "ä", "=a", "a" * TOKEN_BYTES_MAX * 2]
)
def test_what_cannot_be_a_token_is_asked_of_nobody(token: str) -> None:
    assert why_invalid(token) == "what follows Bearer is not a token"
    assert len(digest_of(token)) == 32


def test_the_end_of_a_token_counts_as_long_as_this_clock_does_not_contradict_the_review() -> None:
    claims = Claims(expires_at=60)
    assert seconds_left(claims, 59) == 1
    assert seconds_left(claims, 60) == math.inf
    assert seconds_left(Claims(), 60) == math.inf


@pytest.mark.parametrize(
    "token", ["", "a", "a.b", "a.!.c", "a.bm8.c", "a.W10.c", "a.e30.c", "..", "a.eyJleHAiOiJ4In0.c"]
)
def test_a_token_that_is_no_jwt_says_nothing(token: str) -> None:
    assert claims_of(token) == Claims()


def test_the_refusal_names_the_audience_that_is_wanted() -> None:
    claims = claims_of(make_token("a", audience="vault"))
    ours = Audiences(own="qss", common="all", peers="older")
    assert refusal_text(claims, ours, math.inf) == (
        "the token is for vault: ask Kubernetes for one with the audience qss"
    )
    assert "revoked" in refusal_text(Claims(audiences=("qss",)), ours, 0)
    assert "revoked" in refusal_text(Claims(audiences=("all",)), ours, 0)
    assert "expired" in refusal_text(Claims(expires_at=60), ours, 60)
    assert "for older" in refusal_text(Claims(audiences=("older",)), ours, 0)


def test_the_audience_of_older_pods_is_asked_for_and_taken_from_pods_alone() -> None:
    ours = Audiences(own="qss", peers="older")
    assert ours.all == ("qss", "older")
    found = frozenset({"older"})
    assert ours.take(found, is_peer=True)
    assert ours.bind(found, is_peer=True)
    assert not ours.take(found, is_peer=False)
    assert not ours.bind(found, is_peer=False)
    assert Audiences(own="qss", common="qss").all == ("qss",)
    assert "revoked" in refusal_text(Claims(), ours, 0)
