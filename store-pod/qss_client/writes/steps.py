"""The steps that a shell carries out for an exchange: a request to a pod, or a pause. Pure.

A shell takes the first step with `next`. Then it carries each step out and hands the outcome back
by `send`, or the StoreError by `throw`; the exchange yields its next step, or returns its result.
"""

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import TypeVar

from qss_client.http.answer import HttpAnswer
from qss_client.http.retries import RetryAt
from qss_core.errors import StoreError

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRequest:
    """A request to one pod, sent once. Its outcome is the HttpAnswer, or the pod's StoreError."""

    method: str
    url: str
    body: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    timeout_s: float
    tell_after_s: float  # When a warning says that the answer is late.
    connect_timeout_s: float | None = None  # For a new connection; None is the shell's own.


@dataclass(frozen=True, slots=True)
class Pause:
    """A wait after a failure, as `http.retries.after_failure` says.

    Its outcome is the RetryAt, sent in when the wait is over. Where the rules say to give up, the
    shell throws the failure in.
    """

    failure: StoreError


ExchangeStep = PodRequest | Pause
Exchange = Generator[ExchangeStep, HttpAnswer | RetryAt, Result]


def answer_to(request: PodRequest) -> Exchange[HttpAnswer]:
    """The answer to a request; raises the failure."""
    answer = yield request
    assert isinstance(answer, HttpAnswer), "the outcome of a request is its answer"
    return answer


def pause_after(failure: StoreError) -> Exchange[RetryAt]:
    """Pauses; raises the failure where the rules say to give up."""
    again = yield Pause(failure)
    assert isinstance(again, RetryAt), "the outcome of a pause is what follows it"
    return again
