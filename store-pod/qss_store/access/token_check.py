"""Decides each request by its token's known verdict, and asks the API server for an unknown one.

Requests that need the same review share one. While the API server is away, and until it has settled
after that, requests continue with older verdicts, and ask it again from time to time. It counts as
away if no connection can be made, or if the reviews of several good tokens fail in turn: a single
token with failing reviews must not keep a revoked token usable.
"""

import asyncio
import logging
import math
from collections import OrderedDict
from typing import Protocol

from qss_client.clock import Clock
from qss_core.errors import AccessUnknownError
from qss_store.access.review_limits import ReviewPlaces
from qss_store.access.reviews import (
    ACCESS_REVIEWS,
    TOKEN_REVIEWS,
    NoReviewError,
    Reviewed,
    decode_access_review,
    decode_token_review,
    encode_access_review,
    encode_token_review,
)
from qss_store.access.rights import Identities, Requirement, Right
from qss_store.access.token_claims import (
    Audiences,
    bearer_token,
    claims_of,
    digest_of,
    refusal_text,
    seconds_left,
    token_of,
    why_invalid,
)
from qss_store.access.verdicts import (
    Admit,
    Ask,
    Judgement,
    Known,
    KnownToken,
    KnownTokens,
    Question,
    Refusal,
    Refuse,
    Verdict,
    judge,
)
from qss_store.runtime.metrics import AccessMetrics
from qss_store.runtime.settings import Settings

_LOG = logging.getLogger(__name__)
_PAUSE_S = 1.0  # Between reviews while the API server does not answer.
# An API server that starts reviews tokens before it knows who may do what: some reviews still fail.
_SETTLES_S = 30.0
_FAILED_MAX = 1024  # The most tokens with a failed review that are remembered.
_QUESTIONS_MAX = 8  # Reviews of one request: token and rights, and again if they expire meanwhile.


class Reviewer(Protocol):
    """The API server as the guard sees it."""

    async def post(self, path: str, body: bytes) -> bytes:
        """The body of a successful answer. Raises NoReviewError."""

    async def probe(self) -> None:
        """Raises NoReviewError if the API server does not review this pod's own token."""


class Guard:
    """Admits requests, or raises the refusal."""

    def __init__(
        self,
        reviewer: Reviewer,
        identities: Identities,
        audiences: Audiences,
        clock: Clock,
        metrics: AccessMetrics,
        settings: Settings,
    ) -> None:
        self.identities = identities
        self._reviewer = reviewer
        self._audiences = audiences
        self._clock = clock
        self._metrics = metrics
        self._settings = settings
        self._known_tokens = KnownTokens(settings.access_tokens_max, identities.all)
        self._places = ReviewPlaces()
        self._asking: dict[tuple[bytes, Question], asyncio.Task[Known | None]] = {}
        self._is_away = False
        self._ask_again_at = -math.inf
        self._settled_at = -math.inf
        self._probing = asyncio.Lock()
        self._probed_at = -math.inf
        self._failed: OrderedDict[bytes, float] = OrderedDict()  # By token, when to ask again.

    async def close(self) -> None:
        """Cancels the reviews under way."""
        tasks = list(self._asking.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def passes(self, header: str | None, route: str) -> bool:
        """Whether this token was admitted to this route lately: the only check of most requests."""
        if header is None:
            return False
        token = token_of(header)
        known = None if token is None else self._known_tokens.get(digest_of(token))
        if type(known) is not KnownToken:
            return False
        is_open = known.passes.get(route, 0.0) > self._clock.monotonic_s()
        self._metrics.fresh_hits += is_open
        return is_open

    async def admit(
        self, header: str | None, route: str, requirement: Requirement, address: str = ""
    ) -> None:
        """Raises UnauthenticatedError, ForbiddenError or AccessUnknownError.

        `address` is the caller's; it limits the reviews of unknown tokens.
        """
        token = bearer_token(header)
        digest = digest_of(token)
        known = self._known_tokens.get(digest)
        for number in range(_QUESTIONS_MAX):
            judgement = self._judged(known, requirement)
            if isinstance(judgement, Ask):
                answer = await self._answered(digest, token, known, judgement.question, address)
                if answer is not None:
                    known = answer
                    continue
                judgement = self._judged(known, requirement)  # An older verdict may be usable now.
            match judgement:
                case Admit():
                    if number == 0:
                        self._metrics.hit(is_stale=judgement.is_stale)
                    self._open(digest, token, known, route, judgement, address)
                    return
                case Refuse():
                    raise judgement.error
                case Ask():
                    break
        raise AccessUnknownError(
            "the rights of this account are not known now: the API server does not answer, or too "
            "many refused tokens came from this address; try again"
        )

    def _judged(self, known: Known | None, requirement: Requirement) -> Judgement:
        now = self._clock.monotonic_s()
        is_away = self._is_away or now < self._settled_at
        return judge(known, requirement, self.identities, now, is_away=is_away)

    def _open(
        self,
        digest: bytes,
        token: str,
        known: Known | None,
        route: str,
        judgement: Admit,
        address: str,
    ) -> None:
        assert isinstance(known, KnownToken), "only known tokens are admitted"
        known.passes[route] = judgement.until
        if self._known_tokens.is_useful(known):
            self._places.welcome(address, self._clock.monotonic_s())
        for due in judgement.renew:
            self._review(digest, token, known, due, address)

    # --- Asking

    async def _answered(
        self, digest: bytes, token: str, known: Known | None, question: Question, address: str
    ) -> Known | None:
        review = self._review(digest, token, known, question, address)
        # The first request may be cancelled, but others wait for the same review.
        return None if review is None else await asyncio.shield(review)

    def _review(
        self, digest: bytes, token: str, known: Known | None, question: Question, address: str
    ) -> asyncio.Task[Known | None] | None:
        """The task that reviews this question, new or under way; None if it may not run now."""
        place = digest, question
        review = self._asking.get(place)
        if review is not None:
            return review
        now = self._clock.monotonic_s()
        if now < (self._ask_again_at if self._is_away else self._failed.get(digest, -math.inf)):
            return None
        # Unknown tokens take a place, so that they cannot delay the renewal of good ones.
        is_good = isinstance(known, KnownToken) and self._known_tokens.is_useful(known)
        if not is_good and not self._places.take(address, now):
            return None
        asking = self._ask(digest, token, known, question, is_good=is_good)
        review = asyncio.create_task(asking)
        self._asking[place] = review
        review.add_done_callback(lambda _: self._asking.pop(place))
        if not is_good:
            review.add_done_callback(lambda done: self._give_back(address, question, done))
        return review

    def _give_back(
        self, address: str, question: Question, review: asyncio.Task[Known | None]
    ) -> None:
        found = None if review.cancelled() or review.exception() else review.result()
        was_refused = isinstance(found, Refusal) or (
            isinstance(found, KnownToken)
            and question is not None
            and not self._known_tokens.is_useful(found)
        )
        self._places.give(address, self._clock.monotonic_s(), was_refused=was_refused)

    async def _ask(
        self, digest: bytes, token: str, known: Known | None, question: Question, *, is_good: bool
    ) -> Known | None:
        """The verdict of the review; None if the review failed."""
        kind = "token" if question is None else question.value
        try:
            if question is None:
                found = await self._ask_token(digest, token)
                allowed = isinstance(found, KnownToken)
            else:
                assert isinstance(known, KnownToken), "a right is one of a known account"
                found = await self._ask_right(digest, known, question)
                allowed = found.rights[question].allowed
        except NoReviewError as error:
            self._metrics.reviewed(kind, "failed")
            nobody = error.is_unreached or (is_good and not await self._answers_anybody())
            self._fails(digest, error, nobody=nobody)
            return None
        self._metrics.reviewed(kind, "allowed" if allowed else "denied")
        self._metrics.tokens = len(self._known_tokens)
        self._failed.pop(digest, None)
        if self._is_away:
            self._is_away = False
            self._settled_at = self._clock.monotonic_s() + _SETTLES_S
            _LOG.info("the API server answers reviews again")
        return found

    async def _answers_anybody(self) -> bool:
        """Whether the API server reviews this pod's own token; asked at most once a second."""
        async with self._probing:
            if self._is_away:
                return False
            if self._clock.monotonic_s() >= self._probed_at + _PAUSE_S:
                try:
                    await self._reviewer.probe()
                except NoReviewError:
                    return False
                self._probed_at = self._clock.monotonic_s()
            return True

    def _fails(self, digest: bytes, error: NoReviewError, *, nobody: bool) -> None:
        """Notes a failed review; `nobody` means that every other token's review fails, too."""
        again_at = self._clock.monotonic_s() + _PAUSE_S
        self._failed[digest] = again_at
        if len(self._failed) > _FAILED_MAX:
            self._failed.popitem(last=False)
        if nobody:
            self._ask_again_at = again_at
            if not self._is_away:
                self._is_away = True
                _LOG.warning(
                    "the API server reviews no tokens: %s; known tokens stay usable for longer",
                    error,
                )
        elif not self._is_away:
            _LOG.warning("the review of a token failed: %s", error)

    async def _ask_token(self, digest: bytes, token: str) -> Known:
        claims = claims_of(token)
        wall_s = self._clock.wall_ms() / 1000
        invalid = why_invalid(token)
        reviewed: Reviewed | None = None
        if invalid is None:
            asked = self._audiences.all
            body = await self._reviewer.post(TOKEN_REVIEWS, encode_token_review(token, asked))
            reviewed = decode_token_review(body, asked)
        if reviewed is not None and not self._audiences.take(
            reviewed.audiences, is_peer=self._is_peer(reviewed)
        ):
            reviewed = None
        now = self._clock.monotonic_s()
        verdict = Verdict.of(now, self._settings, allowed=reviewed is not None)
        if reviewed is None:
            message = invalid or refusal_text(claims, self._audiences, wall_s)
            return self._known_tokens.refuse(digest, Refusal(message, verdict.fresh_until))
        is_bound = self._audiences.bind(reviewed.audiences, is_peer=self._is_peer(reviewed))
        ends_at = now + seconds_left(claims, wall_s)
        known_token = KnownToken(reviewed.account, verdict, ends_at, is_bound)
        return self._known_tokens.accept(digest, known_token)

    def _is_peer(self, reviewed: Reviewed) -> bool:
        return reviewed.account.username == self.identities.pods

    async def _ask_right(self, digest: bytes, known: KnownToken, right: Right) -> KnownToken:
        request = encode_access_review(known.account, right, self.identities)
        allowed = decode_access_review(await self._reviewer.post(ACCESS_REVIEWS, request))
        verdict = Verdict.of(self._clock.monotonic_s(), self._settings, allowed=allowed)
        return self._known_tokens.tell(digest, known, right, verdict)
