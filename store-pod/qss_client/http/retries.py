"""Whether and when a request is sent again after a failure. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from qss_client.http.wait_warnings import TELL_AFTER_S
from qss_core.errors import Retry, StoreError, UnreachableError

FIRST_CONTACT_S = 4.5  # A command that finds nobody has ended after 5 s.
_SHARE_MIN_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryLimits:
    """How long and how often a request is repeated; seconds.

    first_contact_s: how long a store is looked for that has never answered. What had answered once
        is asked again until `deadline_s`.
    tell_after_s: when a warning says that an operation waits, or goes on; another one every 5 s.
    """

    deadline_s: float = 30.0
    first_wait_s: float = 0.02
    longest_wait_s: float = 2.0
    first_contact_s: float = FIRST_CONTACT_S
    tell_after_s: float = TELL_AFTER_S

    def within(self, timeout_s: float) -> "RetryLimits":
        """The same, and over after `timeout_s` at the latest."""
        return replace(self, deadline_s=min(self.deadline_s, timeout_s))

    def of_first_contact(self, failures: Sequence[StoreError]) -> "RetryLimits":
        """Those of a store that was not heard of yet: a pod that answers, if only that it is not
        ready, is one."""
        if any(one.code != UnreachableError.code for one in failures):
            return self
        return self.within(self.first_contact_s)

    def share_of_first_contact(self, elapsed_s: float, addresses: int) -> float:
        """How long one of so many addresses may take that were not asked yet."""
        return max(_SHARE_MIN_S, self.first_contact_s - elapsed_s) / addresses


@dataclass(frozen=True, slots=True)
class RetryAt:
    """Repeat the request after a wait; with `refresh`, discover the pods first."""

    wait_s: float
    refresh: bool


def after_failure(
    error: StoreError, attempt: int, elapsed_s: float, jitter: float, limits: RetryLimits
) -> RetryAt | None:
    """What to do after the failure of an attempt (0, 1, ...); None: give up and raise it.

    `jitter` is a random number in [0, 1): clients that failed together do not come back together.
    """
    if error.retry is Retry.NEVER:
        return None
    backoff_s = min(limits.longest_wait_s, limits.first_wait_s * 2.0 ** min(attempt, 20))
    asked = error.details.get("retry_after_ms", error.retry_after_ms)
    wait_s = backoff_s * (0.5 + jitter / 2)
    if asked and attempt == 0:
        wait_s = max(wait_s, asked / 1000)
    if elapsed_s + wait_s > limits.deadline_s:
        return None
    # A pod that does not answer may be gone for good: its partitions may be elsewhere by now.
    refresh = error.retry is Retry.REFRESH_ROUTES or error.code == "UNREACHABLE"
    return RetryAt(wait_s, refresh)


def still_trying(error: StoreError, elapsed_s: float, limits: RetryLimits) -> str:
    """What is said of a failure that is not the end."""
    left_s = max(0.0, limits.deadline_s - elapsed_s)
    return f"{error.message}; asked again for up to {left_s:.0f} s"


def no_answer(store: str, failures: Sequence[StoreError]) -> StoreError:
    """The failure of a first contact, in one sentence; other failures than silence tell more."""
    told = next((one for one in failures if one.code != UnreachableError.code), None)
    if told is not None:
        return told
    why = "; ".join(dict.fromkeys(one.message for one in failures))
    return UnreachableError(
        f"no pod of store {store} answers ({why}): check the URL, and that the store runs"
    )
