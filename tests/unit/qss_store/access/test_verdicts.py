"""The time for which verdicts are used, and the next step that follows from them."""

import math
from dataclasses import replace

import pytest

from qss_core.errors import ForbiddenError, UnauthenticatedError
from qss_store.access.reviews import Account
from qss_store.access.rights import Identities, Requirement, Right
from qss_store.access.verdicts import (
    Admit,
    Ask,
    Judgement,
    KnownToken,
    KnownTokens,
    Refusal,
    Refuse,
    Verdict,
    judge,
)
from qss_store.runtime.settings import Settings

SETTINGS = Settings(access_positive_s=60, access_negative_s=10, access_grace_s=600)
OURS = Identities(
    store="words", namespace="shop", pods="pods", operator="operator", audience="ours"
)
READ = Requirement(rights=(Right.QUERY,))
FIND = Requirement(accounts=frozenset({"pods"}), rights=(Right.QUERY, Right.WRITE))
APP = Account(username="app")


def verdict(now: float, *, allowed: bool = True) -> Verdict:
    return Verdict.of(now, SETTINGS, allowed=allowed)


def known_token(
    account: Account = APP, *, expires_at: float = math.inf, at: float = 0, **rights: Verdict
) -> KnownToken:
    known = {Right(name): one for name, one in rights.items()}
    return KnownToken(account, verdict(at), expires_at, rights=known)


def step(
    known: KnownToken | Refusal | None,
    needed: Requirement = READ,
    now: float = 0,
    *,
    is_away: bool = False,
) -> Judgement:
    return judge(known, needed, OURS, now, is_away=is_away)


def test_an_unknown_token_is_asked_for_first_and_then_its_right() -> None:
    assert step(None) == Ask(None)
    assert step(known_token()) == Ask(Right.QUERY)
    assert step(known_token(query=verdict(0))) == Admit(45)


def test_a_token_that_is_nobodys_is_refused_for_ten_seconds() -> None:
    refused = Refusal("no", 10)
    answer = step(refused, now=9.9)
    assert isinstance(answer, Refuse)
    assert isinstance(answer.error, UnauthenticatedError)
    assert step(refused, now=10) == Ask(None)


def test_a_right_that_lacks_is_refused_for_ten_seconds() -> None:
    known = known_token(query=verdict(0, allowed=False))
    answer = step(known, now=9.9)
    assert isinstance(answer, Refuse)
    assert isinstance(answer.error, ForbiddenError)
    assert step(known, now=10) == Ask(Right.QUERY)
    # Also while the API server does not answer: only an allowing verdict is used longer.
    assert step(known, now=10, is_away=True) == Ask(Right.QUERY)


def test_what_is_allowed_counts_for_a_minute_and_is_asked_again_before() -> None:
    known = known_token(query=verdict(5))
    assert step(known, now=44.9) == Admit(45)
    assert step(known, now=45) == Admit(renew=(None,))
    assert step(known, now=50) == Admit(renew=(None, Right.QUERY))
    assert step(known, now=60) == Ask(None)
    assert step(known_token(at=5, query=verdict(0)), now=60) == Ask(Right.QUERY)


def test_while_nobody_answers_what_was_allowed_counts_for_ten_minutes_more() -> None:
    known = known_token(query=verdict(0))
    assert step(known, now=61, is_away=True) == Admit(renew=(None, Right.QUERY), is_stale=True)
    assert step(known, now=659, is_away=True) == Admit(renew=(None, Right.QUERY), is_stale=True)
    assert step(known, now=660, is_away=True) == Ask(None)
    assert step(None, is_away=True) == Ask(None)
    assert step(known_token(), is_away=True) == Ask(Right.QUERY)


def test_at_its_own_end_a_token_is_reviewed_again_and_refused_while_nobody_answers() -> None:
    known = known_token(expires_at=30, query=verdict(0))
    assert step(known, now=29) == step(known, now=29, is_away=True) == Admit(30)
    assert step(known, now=30) == Ask(None)
    answer = step(known, now=30, is_away=True)
    assert isinstance(answer, Refuse)
    assert "expired" in answer.error.message


def test_an_account_that_is_named_needs_no_right() -> None:
    assert step(known_token(Account(username="pods")), FIND) == Admit(45)
    control = Requirement(accounts=frozenset({"operator"}))
    assert isinstance(step(known_token(), control), Refuse)
    assert step(known_token(), Requirement(is_for_all=True)) == Admit(45)


def test_one_right_of_several_is_enough() -> None:
    denied, allowed = verdict(0, allowed=False), verdict(0)
    assert step(known_token(query=denied, write=allowed), FIND) == Admit(45)
    assert step(known_token(write=allowed), FIND) == Admit(45)
    assert step(known_token(query=denied), FIND) == Ask(Right.WRITE)
    answer = step(known_token(query=denied, write=denied), FIND)
    assert isinstance(answer, Refuse)
    assert "get queryablestatestores/query or update queryablestatestores/write" in str(
        answer.error
    )


def test_who_is_named_needs_a_token_of_this_store_alone() -> None:
    pods = replace(known_token(Account(username="pods")), is_bound=False)
    refused = step(pods, Requirement(accounts=frozenset({"pods"})))
    assert isinstance(refused, Refuse)
    assert "a token with the audience ours" in str(refused.error)
    assert step(pods, FIND) == Ask(Right.QUERY)  # The account may still have the right.


@pytest.mark.parametrize("useless", ["nobodys", "without a right", "of a refused right"])
def test_tokens_are_kept_up_to_a_bound_and_useless_ones_push_no_other_out(useless: str) -> None:
    kept = KnownTokens(2)
    for number in range(3):
        kept.accept(b"%d" % number, known_token())
        kept.tell(b"%d" % number, known_token(), Right.QUERY, verdict(0))
        kept.get(b"0")
    assert kept.get(b"1") is None
    assert isinstance(kept.get(b"0"), KnownToken)
    for number in range(10, 15):
        if useless == "nobodys":
            kept.refuse(b"%d" % number, Refusal("no", 10))
            continue
        made = kept.accept(b"%d" % number, known_token())
        if useless == "of a refused right":
            kept.tell(b"%d" % number, made, Right.QUERY, verdict(0, allowed=False))
    assert len(kept) == 4
    assert isinstance(kept.get(b"0"), KnownToken)
    kept.refuse(b"0", Refusal("no", 10))
    assert isinstance(kept.get(b"0"), Refusal)


def test_a_named_account_is_kept_as_useful_where_its_token_is_this_stores() -> None:
    kept = KnownTokens(2, frozenset({"pods"}))
    pods = known_token(Account(username="pods"))
    assert kept.is_useful(kept.accept(b"0", pods))
    assert not kept.is_useful(kept.accept(b"1", replace(pods, is_bound=False)))


def test_a_token_that_loses_its_right_is_pushed_out_like_others() -> None:
    kept = KnownTokens(1)
    kept.accept(b"0", known_token())
    told = kept.tell(b"0", known_token(), Right.QUERY, verdict(0))
    kept.tell(b"0", told, Right.QUERY, verdict(60, allowed=False))
    assert isinstance(kept.get(b"0"), KnownToken)
    kept.refuse(b"1", Refusal("no", 10))
    assert kept.get(b"0") is None


def test_rights_stay_with_their_account_and_go_with_it() -> None:
    kept = KnownTokens(2)
    told = kept.tell(b"0", known_token(), Right.QUERY, verdict(0))
    assert told == known_token(query=verdict(0))
    assert kept.get(b"0") is None
    made = kept.accept(b"0", known_token())
    made.passes["/"] = 10
    told = kept.tell(b"0", made, Right.QUERY, verdict(0))
    assert told == kept.get(b"0")
    assert told.passes == {}
    assert kept.accept(b"0", known_token(at=40)).rights == {Right.QUERY: verdict(0)}
    assert kept.accept(b"0", known_token(Account(username="other"))).rights == {}
