"""Asks the pods that may answer a request, one after the other while none answers. Pure.

A point read goes to the next replica after a few times the usual time of an answer, so that a pod
that stands still costs a read a tenth of a second. Any other request may need long where its pod
works: before the next pod gets it, the pod is asked for something small, and where it answers that,
it gets the request again, with the whole time.

Times are in seconds of a monotonic clock.
"""

from dataclasses import dataclass

from qss_client.reads.requests import HttpRequest
from qss_client.reads.routing.known_pods import KnownPods, is_silence
from qss_core.errors import UnreachableError

_MARGIN_S = 5.0  # The store ends a request itself; the client waits a little longer.
_LIMIT_MIN_S = 0.05


@dataclass(slots=True)
class Turn:
    """One attempt of a request over the pods in `waiting`; the last one gets all the time left."""

    request: HttpRequest
    waiting: list[str]
    pods: KnownPods
    begun_s: float
    _asked: str = ""
    _asked_s: float = 0.0
    _has_missed: bool = False

    def take(self, now_s: float) -> tuple[str, float]:
        """The pod to ask now, and the time that it has for its answer."""
        self._asked, self._asked_s = self.waiting.pop(0), now_s
        left_s = max(_LIMIT_MIN_S, self.request.timeout_s - (now_s - self.begun_s))
        if not self.waiting:
            return self._asked, left_s + _MARGIN_S
        half_s = left_s / 2
        if self.request.is_point:
            return self._asked, min(half_s, self.pods.point_limit_s(self._asked))
        return self._asked, half_s

    @property
    def may_need_long(self) -> bool:
        """Whether the pod that gave no answer is to be asked for something small."""
        return bool(self.waiting) and not self.request.is_point

    def missed(self, error: UnreachableError, now_s: float, *, works: bool) -> None:
        """Notes that the pod gave no answer; raises the error where no other pod is left.

        works: the pod has answered something small, and needs long.
        """
        if works:
            self.waiting, self.begun_s = [self._asked], now_s
            return
        if is_silence(error):
            is_cut_short = self.request.is_point and bool(self.waiting)
            self.pods.was_silent(self._asked, now_s, is_point=is_cut_short)
        if not self.waiting:
            raise error
        self._has_missed = True

    def answered(self, now_s: float) -> bool:
        """Notes the answer. True: another pod gave none, so the routes may be old."""
        took_s = now_s - self._asked_s
        self.pods.answered(self._asked, took_s, is_point=self.request.is_point)
        return self._has_missed
