"""What is known of each token, how long it counts, and what follows for a request. Pure.

Times are seconds of a clock that only grows. A verdict is *fresh* until it has to be asked for
again; an allowing one stays *usable* for longer, for as long as the API server does not answer. A
token's own end is the end of both.
"""

import math
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from qss_core.errors import StoreError, UnauthenticatedError
from qss_store.access.reviews import Account
from qss_store.access.rights import Identities, Requirement, Right, forbidden
from qss_store.access.tokens import EXPIRED
from qss_store.settings import Settings

# What is asked of the API server: a right of the token's account, or (None) whose token it is.
Question = Right | None
Kept = TypeVar("Kept")
# A verdict in use is asked for again before it ends: then nobody waits for the answer.
_RENEW_AT = 0.75


@dataclass(frozen=True, slots=True)
class Verdict:
    """One answer of the API server."""

    allowed: bool
    renew_at: float
    fresh_until: float
    usable_until: float

    @classmethod
    def of(cls, now: float, settings: Settings, *, allowed: bool) -> "Verdict":
        """An answer that came just now."""
        if not allowed:
            until = now + settings.access_negative_s
            return cls(allowed, until, until, until)
        return cls(
            allowed,
            now + _RENEW_AT * settings.access_positive_s,
            now + settings.access_positive_s,
            now + settings.access_positive_s + settings.access_grace_s,
        )

    def counts(self, now: float, *, is_away: bool) -> bool:
        """Whether it may be used; `is_away`: the API server does not answer."""
        return now < (self.usable_until if is_away else self.fresh_until)


@dataclass(frozen=True, slots=True)
class Passport:
    """A token that the API server knows."""

    account: Account
    verdict: Verdict
    expires_at: float  # Infinity where the token does not say.
    rights: Mapping[Right, Verdict] = field(default_factory=dict)
    # By route, until when it is open without another look at all of this. It is no part of what is
    # known: whatever changes here makes another passport, which has none.
    passes: dict[str, float] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A token that the API server does not know."""

    message: str
    until: float


Known = Passport | Refusal


# --- What to do with a request


@dataclass(frozen=True, slots=True)
class Admit:
    """Let it pass; `renew` is asked for meanwhile, where there is something to renew.

    `until`: no other answer is possible before, and there is nothing to renew.
    """

    until: float = -math.inf
    renew: tuple[Question, ...] = ()
    is_stale: bool = False


@dataclass(frozen=True, slots=True)
class Refuse:
    """Answer with an error."""

    error: StoreError


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask the API server first."""

    question: Question


Step = Admit | Refuse | Ask


def judge(
    known: Known | None,
    requirement: Requirement,
    identities: Identities,
    now: float,
    *,
    is_away: bool,
) -> Step:
    """What follows for a request with this requirement."""
    match known:
        case None:
            return Ask(None)
        case Refusal():
            if now < known.until:
                return Refuse(UnauthenticatedError(known.message))
            return Ask(None)
        case Passport():
            if now >= known.expires_at:
                return Refuse(UnauthenticatedError(EXPIRED))
            if not known.verdict.counts(now, is_away=is_away):
                return Ask(None)
            return _judge_account(known, requirement, identities, now, is_away=is_away)


def _judge_account(
    known: Passport,
    requirement: Requirement,
    identities: Identities,
    now: float,
    *,
    is_away: bool,
) -> Step:
    if requirement.is_for_all or known.account.username in requirement.accounts:
        return _admit(known, None, now)
    unknown: Right | None = None
    for right in requirement.rights:
        verdict = known.rights.get(right)
        if verdict is None or not verdict.counts(now, is_away=is_away):
            unknown = unknown or right
        elif verdict.allowed:
            return _admit(known, right, now)
    if unknown is not None:
        return Ask(unknown)
    return Refuse(forbidden(known.account.username, requirement, identities))


def _admit(known: Passport, right: Right | None, now: float) -> Admit:
    of_token = known.verdict
    of_right = of_token if right is None else known.rights[right]
    until = min(of_token.renew_at, of_right.renew_at)
    if now < until:
        return Admit(min(until, known.expires_at))
    due: list[Question] = [None] if now >= of_token.renew_at else []
    if right is not None and now >= of_right.renew_at:
        due.append(right)
    is_stale = now >= min(of_token.fresh_until, of_right.fresh_until)
    return Admit(renew=tuple(due), is_stale=is_stale)


# --- What is kept


class Passports:
    """Tokens by their digest. Refused ones have a place of their own: they push nobody out."""

    def __init__(self, tokens_max: int) -> None:
        """Keeps as many of either kind, those that were used last."""
        self._tokens_max = tokens_max
        self._known: OrderedDict[bytes, Passport] = OrderedDict()
        self._refused: OrderedDict[bytes, Refusal] = OrderedDict()

    def __len__(self) -> int:
        """Tokens of either kind."""
        return len(self._known) + len(self._refused)

    def get(self, digest: bytes) -> Known | None:
        """What is known of a token."""
        found = self._known.get(digest)
        if found is None:
            return self._refused.get(digest)
        self._known.move_to_end(digest)
        return found

    def accept(
        self, digest: bytes, account: Account, verdict: Verdict, expires_at: float
    ) -> Passport:
        """The token is this account's. Rights that are known of the same account stay."""
        held = self._known.get(digest)
        rights = held.rights if held is not None and held.account == account else {}
        self._refused.pop(digest, None)
        passport = Passport(account, verdict, expires_at, rights)
        _put(self._known, digest, passport, self._tokens_max)
        return passport

    def refuse(self, digest: bytes, refusal: Refusal) -> Refusal:
        """The token is nobody's."""
        self._known.pop(digest, None)
        _put(self._refused, digest, refusal, self._tokens_max)
        return refusal

    def tell(self, digest: bytes, asked: Passport, right: Right, verdict: Verdict) -> Passport:
        """Whether an account has a right; only told, not kept, where it was forgotten meanwhile."""
        held = self._known.get(digest)
        is_kept = held is not None and held.account == asked.account
        base = held if held is not None and is_kept else asked
        passport = replace(base, rights={**base.rights, right: verdict}, passes={})
        if is_kept:
            self._known[digest] = passport
        return passport


def _put(kept: OrderedDict[bytes, Kept], digest: bytes, value: Kept, tokens_max: int) -> None:
    kept[digest] = value
    kept.move_to_end(digest)
    if len(kept) > tokens_max:
        kept.popitem(last=False)
