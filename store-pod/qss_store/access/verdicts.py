"""Keeps the verdicts about each token until they expire, and decides requests by them. Pure.

Times are seconds of a monotonic clock. A verdict is *fresh* until it has to be reviewed again. A
verdict that allows stays *usable* for longer while the API server does not answer. Neither lasts
beyond the token's own expiry.
"""

import math
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from qss_core.errors import StoreError, UnauthenticatedError
from qss_store.access.reviews import Account
from qss_store.access.rights import Identities, Requirement, Right, forbidden, unbound
from qss_store.access.token_claims import EXPIRED
from qss_store.runtime.settings import Settings

# The subject of a review: a right of the token's account, or (None) the token's account.
Question = Right | None
Kept = TypeVar("Kept")
# A verdict in use is renewed before it ends, so that no request waits for the review.
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
        """A verdict that came just now."""
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
        """Whether the verdict may be used; `is_away` means that the API server does not answer."""
        return now < (self.usable_until if is_away else self.fresh_until)


@dataclass(frozen=True, slots=True)
class KnownToken:
    """A token that the API server accepts.

    A token proves that its account is the operator or a pod of this store only if it `is_bound`.
    """

    account: Account
    verdict: Verdict
    expires_at: float  # Infinity if the token does not say, or this node's clock contradicts.
    is_bound: bool = True
    rights: Mapping[Right, Verdict] = field(default_factory=dict)
    # By route, the time until which a request passes without a new decision. A change of any other
    # member makes a new KnownToken, without passes.
    passes: dict[str, float] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A token that the API server does not accept."""

    message: str
    until: float


Known = KnownToken | Refusal


# --- The decision on a request


@dataclass(frozen=True, slots=True)
class Admit:
    """Admit the request; ask to `renew` these meanwhile.

    Until `until` the answer cannot change, and nothing is to be renewed.
    """

    until: float = -math.inf
    renew: tuple[Question, ...] = ()
    is_stale: bool = False


@dataclass(frozen=True, slots=True)
class Refuse:
    error: StoreError


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask the API server first."""

    question: Question


Judgement = Admit | Refuse | Ask


def judge(
    known: Known | None,
    requirement: Requirement,
    identities: Identities,
    now: float,
    *,
    is_away: bool,
) -> Judgement:
    """Decides about a request with this requirement."""
    match known:
        case None:
            return Ask(None)
        case Refusal():
            if now < known.until:
                return Refuse(UnauthenticatedError(known.message))
            return Ask(None)
        case KnownToken():
            if now >= known.expires_at:
                # This node's clock may be ahead: as long as the API server answers, it decides.
                return Refuse(UnauthenticatedError(EXPIRED)) if is_away else Ask(None)
            if not known.verdict.counts(now, is_away=is_away):
                return Ask(None)
            return _judge_account(known, requirement, identities, now, is_away=is_away)


def _judge_account(
    known: KnownToken,
    requirement: Requirement,
    identities: Identities,
    now: float,
    *,
    is_away: bool,
) -> Judgement:
    is_named = known.account.username in requirement.accounts
    if requirement.is_for_all or (is_named and known.is_bound):
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
    if is_named and not requirement.rights:
        return Refuse(unbound(known.account.username, identities))
    return Refuse(forbidden(known.account.username, requirement, identities))


def _admit(known: KnownToken, right: Right | None, now: float) -> Admit:
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


# --- Kept verdicts


class KnownTokens:
    """Known tokens by their digest.

    Tokens with a right here are kept apart, so that useless tokens cannot displace them.
    """

    def __init__(self, tokens_max: int, accounts: frozenset[str] = frozenset()) -> None:
        """Keeps up to `tokens_max` tokens of each kind; `accounts` need no right."""
        self._tokens_max = tokens_max
        self._accounts = accounts
        self._useful: OrderedDict[bytes, KnownToken] = OrderedDict()
        self._useless: OrderedDict[bytes, Known] = OrderedDict()

    def __len__(self) -> int:
        return len(self._useful) + len(self._useless)

    def get(self, digest: bytes) -> Known | None:
        found = self._useful.get(digest)
        if found is None:
            return self._useless.get(digest)
        self._useful.move_to_end(digest)
        return found

    def accept(self, digest: bytes, known_token: KnownToken) -> KnownToken:
        """Adds a token, and keeps the known rights if the account is the same."""
        held = self.get(digest)
        if isinstance(held, KnownToken) and held.account == known_token.account:
            known_token = replace(known_token, rights=held.rights)
        return self._keep(digest, known_token)

    def refuse(self, digest: bytes, refusal: Refusal) -> Refusal:
        self._useful.pop(digest, None)
        _put(self._useless, digest, refusal, self._tokens_max)
        return refusal

    def tell(self, digest: bytes, asked: KnownToken, right: Right, verdict: Verdict) -> KnownToken:
        """Adds a right's verdict to a token; not kept if the token was forgotten meanwhile."""
        held = self.get(digest)
        is_kept = isinstance(held, KnownToken) and held.account == asked.account
        base = held if isinstance(held, KnownToken) and is_kept else asked
        known_token = replace(base, rights={**base.rights, right: verdict}, passes={})
        return self._keep(digest, known_token) if is_kept else known_token

    def is_useful(self, known_token: KnownToken) -> bool:
        """Whether the token's account has any right here."""
        is_named = known_token.is_bound and known_token.account.username in self._accounts
        return is_named or any(verdict.allowed for verdict in known_token.rights.values())

    def _keep(self, digest: bytes, known_token: KnownToken) -> KnownToken:
        if self.is_useful(known_token):
            self._useless.pop(digest, None)
            _put(self._useful, digest, known_token, self._tokens_max)
        else:
            self._useful.pop(digest, None)
            _put(self._useless, digest, known_token, self._tokens_max)
        return known_token


def _put(kept: OrderedDict[bytes, Kept], digest: bytes, value: Kept, tokens_max: int) -> None:
    kept[digest] = value
    kept.move_to_end(digest)
    if len(kept) > tokens_max:
        kept.popitem(last=False)
