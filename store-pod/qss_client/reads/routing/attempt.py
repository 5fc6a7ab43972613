"""Asks the pods that may answer a request, one after the other while none answers. Pure.

A point read goes to the next replica after a few times the usual time of an answer, so that a pod
that stands still costs a read a quarter of a second. Any other request may need long where its pod
works. So meanwhile the pod is asked for something small, and the next one gets the request only
where that has no answer.

Times are in seconds of a monotonic clock.
"""

from dataclasses import dataclass

from qss_client.reads.requests import HttpRequest
from qss_client.reads.routing.known_pods import KnownPods, is_silence
from qss_core.errors import (
    NotReadyError,
    NotUpToBoundError,
    StoreError,
    TooStaleError,
    UnreachableError,
)

_MARGIN_S = 2.0  # The store ends a request itself; the client waits a little longer.
_LIMIT_MIN_S = 0.05
# Failures after which another replica may answer. A pod asks the others itself, if it reaches them.
ELSEWHERE = (NotReadyError, NotUpToBoundError, TooStaleError, UnreachableError)


@dataclass(slots=True)
class Attempt:
    """One attempt of a request over the pods in `waiting`.

    The last one gets all the time left. In a store with standbys (`may_move`) another pod may take
    its place meanwhile: so it is given up where it gives no answer, and the routes are asked for.
    """

    request: HttpRequest
    waiting: list[str]
    pods: KnownPods
    begun_s: float
    may_move: bool = False
    _asked: str = ""
    _asked_s: float = 0.0
    _has_missed: bool = False
    _failure: StoreError | None = (
        None  # The error of a pod that answered: it says more than silence.
    )

    def take(self, now_s: float) -> tuple[str, float]:
        """The pod to ask now, and the time that it has for its answer."""
        self._asked, self._asked_s = self.waiting.pop(0), now_s
        left_s = max(_LIMIT_MIN_S, self.request.timeout_s - (now_s - self.begun_s))
        if self.waiting and self.request.is_point:
            return self._asked, min(left_s / 2, self.pods.point_limit_s(self._asked))
        return self._asked, left_s + _MARGIN_S

    @property
    def is_watched(self) -> bool:
        """Whether the pod is asked for something small meanwhile: it may need long."""
        return self.may_move if not self.waiting else not self.request.is_point

    def missed(self, error: StoreError, now_s: float) -> None:
        """Notes a failure that another pod may not have; raises where no other one is left."""
        if not is_silence(error):
            self._failure = error
        else:
            is_cut_short = self.request.is_point and bool(self.waiting)
            self.pods.was_silent(self._asked, self._asked_s, now_s, is_point=is_cut_short)
        if not self.waiting:
            raise self._failure or error
        self._has_missed = True

    def answered(self, now_s: float) -> bool:
        """Notes the answer. True: another pod gave none, so the routes may be old."""
        took_s = now_s - self._asked_s
        self.pods.answered(self._asked, now_s, took_s, is_point=self.request.is_point)
        return self._has_missed
