"""Decides each request by what is known of its token, and asks the API server for the rest.

Requests that wait for the same answer wait for one review. While the API server does not answer,
it is asked again from time to time, by requests that go on with what was known before.
"""

import asyncio
import logging
import math
from typing import Protocol

from qss_core.errors import AccessUnknownError
from qss_store.access.passports import (
    Admit,
    Ask,
    Known,
    Passport,
    Passports,
    Question,
    Refusal,
    Refuse,
    Step,
    Verdict,
    judge,
)
from qss_store.access.reviews import (
    ACCESS_REVIEWS,
    TOKEN_REVIEWS,
    Account,
    NoReviewError,
    decode_access_review,
    decode_token_review,
    encode_access_review,
    encode_token_review,
)
from qss_store.access.rights import Identities, Requirement, Right
from qss_store.access.tokens import (
    bearer_token,
    claims_of,
    digest_of,
    refusal_text,
    why_invalid,
)
from qss_store.clock import Clock
from qss_store.metrics import AccessMetrics
from qss_store.settings import Settings

_LOG = logging.getLogger(__name__)
_PAUSE_S = 1.0  # Between questions to an API server that does not answer.
_REVIEWS_AT_ONCE_MAX = 64
_QUESTIONS_MAX = 8  # Of one request: token and rights, and again where they ended meanwhile.


class Reviewer(Protocol):
    """The API server, as far as it is needed."""

    async def post(self, path: str, body: bytes) -> bytes:
        """The body of a good answer; NoReviewError where there is none in time."""


class Guard:
    """Admits requests, or raises why not."""

    def __init__(
        self,
        reviewer: Reviewer,
        identities: Identities,
        audience: str,
        clock: Clock,
        metrics: AccessMetrics,
        settings: Settings,
    ) -> None:
        """Knows no token yet."""
        self.identities = identities
        self._reviewer = reviewer
        self._audience = audience
        self._clock = clock
        self._metrics = metrics
        self._settings = settings
        self._passports = Passports(settings.access_tokens_max)
        self._asking: dict[tuple[bytes, Question], asyncio.Task[Known | None]] = {}
        self._is_away = False
        self._ask_again_at = -math.inf

    async def close(self) -> None:
        """Ends the reviews that are under way."""
        tasks = list(self._asking.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def passes(self, header: str | None, route: str) -> bool:
        """Whether this caller was admitted here lately: all that most requests cost."""
        if header is None:
            return False
        known = self._passports.get(digest_of(header))
        if type(known) is not Passport:
            return False
        is_open = known.passes.get(route, 0.0) > self._clock.monotonic()
        self._metrics.fresh_hits += is_open
        return is_open

    async def admit(self, header: str | None, route: str, requirement: Requirement) -> None:
        """Raises UnauthenticatedError, ForbiddenError, AccessUnknownError."""
        token = bearer_token(header)
        assert header is not None, "it has a token"
        digest = digest_of(header)
        known = self._passports.get(digest)
        for number in range(_QUESTIONS_MAX):
            step = self._judged(known, requirement)
            if isinstance(step, Ask):
                answer = await self._answered(digest, token, known, step.question)
                if answer is not None:
                    known = answer
                    continue
                step = self._judged(known, requirement)  # What was known before may do now.
            match step:
                case Admit():
                    if number == 0:
                        self._metrics.hit(is_stale=step.is_stale)
                    self._open(digest, token, known, route, step)
                    return
                case Refuse():
                    raise step.error
                case Ask():
                    break
        raise AccessUnknownError(
            "the API server does not say now whether this account may do this: try again"
        )

    def _judged(self, known: Known | None, requirement: Requirement) -> Step:
        now = self._clock.monotonic()
        return judge(known, requirement, self.identities, now, is_away=self._is_away)

    def _open(
        self, digest: bytes, token: str, known: Known | None, route: str, step: Admit
    ) -> None:
        assert isinstance(known, Passport), "nobody else is admitted"
        known.passes[route] = step.until
        for due in step.renew:
            self._review(digest, token, known, due)

    # --- Asking

    async def _answered(
        self, digest: bytes, token: str, known: Known | None, question: Question
    ) -> Known | None:
        review = self._review(digest, token, known, question)
        # Whoever asked first may go away; the others want the answer.
        return None if review is None else await asyncio.shield(review)

    def _review(
        self, digest: bytes, token: str, known: Known | None, question: Question
    ) -> asyncio.Task[Known | None] | None:
        """The review of this question that is under way; None where it is not to be asked now."""
        place = digest, question
        review = self._asking.get(place)
        if review is not None:
            return review
        if self._is_away and self._clock.monotonic() < self._ask_again_at:
            return None
        # A flood of unknown tokens must not keep those that are known from being renewed.
        if not isinstance(known, Passport) and len(self._asking) >= _REVIEWS_AT_ONCE_MAX:
            return None
        review = asyncio.create_task(self._ask(digest, token, known, question))
        self._asking[place] = review
        review.add_done_callback(lambda _: self._asking.pop(place))
        return review

    async def _ask(
        self, digest: bytes, token: str, known: Known | None, question: Question
    ) -> Known | None:
        """What is known with the answer; None where there is none."""
        kind = "token" if question is None else question.value
        try:
            if question is None:
                found = await self._ask_token(digest, token)
                allowed = isinstance(found, Passport)
            else:
                assert isinstance(known, Passport), "a right is one of a known account"
                found = await self._ask_right(digest, known, question)
                allowed = found.rights[question].allowed
        except NoReviewError as error:
            self._metrics.reviewed(kind, "failed")
            self._fails(str(error))
            return None
        self._metrics.reviewed(kind, "allowed" if allowed else "denied")
        self._metrics.tokens = len(self._passports)
        if self._is_away:
            self._is_away = False
            _LOG.info("the API server answers reviews again")
        return found

    def _fails(self, why: str) -> None:
        self._ask_again_at = self._clock.monotonic() + _PAUSE_S
        if not self._is_away:
            self._is_away = True
            _LOG.warning("no review: %s; what is known counts for longer", why)

    async def _ask_token(self, digest: bytes, token: str) -> Known:
        claims = claims_of(token)
        wall_s = self._clock.wall_ms() / 1000
        invalid = why_invalid(token, claims, wall_s)
        account: Account | None = None
        if invalid is None:
            request = encode_token_review(token, self._audience)
            account = decode_token_review(
                await self._reviewer.post(TOKEN_REVIEWS, request), self._audience
            )
        now = self._clock.monotonic()
        verdict = Verdict.of(now, self._settings, allowed=account is not None)
        if account is None:
            message = invalid or refusal_text(claims, self._audience)
            return self._passports.refuse(digest, Refusal(message, verdict.fresh_until))
        left_s = math.inf if claims.expires_at is None else claims.expires_at - wall_s
        return self._passports.accept(digest, account, verdict, now + left_s)

    async def _ask_right(self, digest: bytes, known: Passport, right: Right) -> Passport:
        request = encode_access_review(known.account, right, self.identities)
        allowed = decode_access_review(await self._reviewer.post(ACCESS_REVIEWS, request))
        verdict = Verdict.of(self._clock.monotonic(), self._settings, allowed=allowed)
        return self._passports.tell(digest, known, right, verdict)
