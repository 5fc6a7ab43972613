"""Decides whether and when a failed request is sent again. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from qss_client.arguments import check_seconds, shown_value
from qss_client.http.wait_warnings import TELL_AFTER_S
from qss_core.errors import (
    MalformedRequestError,
    NotReadyError,
    NotUpToBoundError,
    Retry,
    StoreError,
    UnreachableError,
)
from qss_core.text import escaped

FIRST_CONTACT_S = 4.5  # A command that reaches no pod ends within 5 s.
ROUTES_WAIT_MAX_S = 0.25  # While partitions change hands: a new active waits for nobody.
HANDOVER_WAIT_MAX_S, _HANDOVER_S = 0.05, 1.0  # A planned handover is over before.
_BEHIND_TRIES = 3  # Tries after which routes are read once for a replica that stays behind.
_SHARE_MIN_S = 0.1
_OF_SEVERAL_S = 1.0


class NeverAnsweredError(UnreachableError):
    """The addresses of a store that have given no answer to this program yet."""

    def __init__(self, message: str, store: str = "") -> None:
        super().__init__(message)
        self.store = store


class NoConnectionInTimeError(UnreachableError):
    """Nobody takes or refuses connections at the address: its pod is gone, or cut off."""


class NoAnswerInTimeError(UnreachableError):
    """A process takes connections at the address, and did not answer in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryLimits:
    """The limits of repeating a request, in seconds.

    first_contact_s: for a store that has never answered; after its first answer requests are
    repeated until `deadline_s`. tell_after_s: the time until the first warning of a wait or a
    retry; another warning follows every 5 s.
    """

    deadline_s: float = 30.0
    first_wait_s: float = 0.02
    longest_wait_s: float = 2.0
    first_contact_s: float = FIRST_CONTACT_S
    tell_after_s: float = TELL_AFTER_S

    def __post_init__(self) -> None:
        """Raises MalformedRequestError for a text that is no time."""
        for name in ("deadline_s", "first_wait_s", "longest_wait_s", "first_contact_s"):
            check_seconds(name, getattr(self, name), least=0)
        check_seconds("tell_after_s", self.tell_after_s, least=0)

    def within(self, timeout_s: float) -> "RetryLimits":
        """The same limits, with a deadline of at most `timeout_s`."""
        return replace(self, deadline_s=min(self.deadline_s, timeout_s))

    def of_first_contact(self, failures: Sequence[StoreError]) -> "RetryLimits":
        """The limits for a store without an answer so far.

        A pod that answers that it is not ready counts as an answer.
        """
        if any(one.code != UnreachableError.code for one in failures):
            return self
        return self.within(self.first_contact_s)

    def share_of_first_contact(self, elapsed_s: float, addresses: int) -> float:
        """The time for one of `addresses` addresses that were not asked yet.

        A pod that works answers soon, and another one may be asked.
        """
        share_s = max(_SHARE_MIN_S, self.first_contact_s - elapsed_s) / addresses
        return share_s if addresses == 1 else min(_OF_SEVERAL_S, share_s)


def check_limits(limits: object) -> None:
    """Raises MalformedRequestError for any other type than RetryLimits."""
    if not isinstance(limits, RetryLimits):
        raise MalformedRequestError(
            f"limits: a RetryLimits, as RetryLimits(deadline_s=60), not {shown_value(limits)}"
        )


@dataclass(frozen=True, slots=True)
class RetryAt:
    """Repeat the request after a wait; with `refresh`, discover the pods first."""

    wait_s: float
    refresh: bool


def after_failure(
    error: StoreError, attempt: int, elapsed_s: float, jitter: float, limits: RetryLimits
) -> RetryAt | None:
    """The action after a failed attempt (0, 1, ...); None: raise the error.

    `jitter` is a random number in [0, 1): clients that failed together repeat at different times.
    """
    if error.retry is Retry.NEVER:
        return None
    backoff_s = min(limits.longest_wait_s, limits.first_wait_s * 2.0 ** min(attempt, 20))
    asked = error.details.get("retry_after_ms", error.retry_after_ms)
    wait_s = backoff_s * (0.5 + jitter / 2)
    if asked and attempt == 0:
        wait_s = max(wait_s, asked / 1000)
    # A pod that does not answer may be gone for good, and its partitions elsewhere. One that is
    # cut off from the others says again and again that it is not ready.
    is_gone = error.code == UnreachableError.code
    is_cut_off = error.code == NotReadyError.code and attempt > 0
    refresh = error.retry is Retry.REFRESH_ROUTES or is_gone or is_cut_off
    if refresh or error.code == NotReadyError.code:
        is_short = elapsed_s < _HANDOVER_S
        wait_s = min(wait_s, HANDOVER_WAIT_MAX_S if is_short else ROUTES_WAIT_MAX_S)
    if elapsed_s + wait_s > limits.deadline_s:
        return None
    # The store may have been made again: then the position is one of the store before.
    is_behind = error.code == NotUpToBoundError.code and attempt == _BEHIND_TRIES
    return RetryAt(wait_s, refresh or is_behind)


def still_trying(error: StoreError, elapsed_s: float, limits: RetryLimits) -> str:
    """The warning about a failure after which the request is repeated.

    The reason of a first contact comes with the error, which follows within seconds.
    """
    left_s = round(limits.deadline_s - elapsed_s)
    why = error.message
    if isinstance(error, NeverAnsweredError):
        why = f"store {error.store} has not answered yet"
    return f"{escaped(why)}; asked again {f'for up to {left_s} s' if left_s > 0 else 'now'}"


def no_answer(store: str, failures: Sequence[StoreError]) -> StoreError:
    """The error of a failed first contact; failures other than silence are more telling."""
    told = next((one for one in failures if one.code != UnreachableError.code), None)
    if told is not None:
        return told
    why = "; ".join(dict.fromkeys(_reason(one) for one in failures))
    advice = "check the URL, and that the store runs"
    if any(isinstance(one, NoAnswerInTimeError) for one in failures):
        advice = (
            "a pod that listens and does not answer is frozen or overloaded: look at "
            f"`qss status {store}`"
        )
    return NeverAnsweredError(f"no pod of store {store} answers ({why}): {advice}", store)


def _reason(error: StoreError) -> str:
    listens = isinstance(error, NoAnswerInTimeError)
    return f"{error.message}, but something listens there" if listens else error.message
