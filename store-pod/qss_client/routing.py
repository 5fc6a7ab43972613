"""Which pod to ask, and what to do after a failure. Pure."""

from dataclasses import dataclass, replace

from qss_core.errors import Retry, StoreError
from qss_core.model import PartitionId
from qss_core.wire import Instance, StoreMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryLimits:
    """How long and how often a request is repeated; seconds."""

    deadline_s: float = 30.0
    first_wait_s: float = 0.02
    longest_wait_s: float = 2.0

    def within(self, timeout_s: float) -> "RetryLimits":
        """The same, and over after `timeout_s` at the latest."""
        return replace(self, deadline_s=min(self.deadline_s, timeout_s))


@dataclass(frozen=True, slots=True)
class Again:
    """Repeat the request after a wait; with `refresh`, discover the pods first."""

    wait_s: float
    refresh: bool


def after_failure(
    error: StoreError, attempt: int, elapsed_s: float, jitter: float, limits: RetryLimits
) -> Again | None:
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
    return Again(wait_s, refresh)


def active_of(metadata: StoreMetadata, partition: PartitionId) -> Instance:
    """The pod that has the partition's active."""
    ordinal = metadata.assignment[partition].active
    return next(instance for instance in metadata.instances if instance.ordinal == ordinal)
