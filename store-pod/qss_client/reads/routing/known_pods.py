"""Remembers how the pods answer, and orders the pods that may answer a request. Pure."""

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from qss_core.errors import StoreError

SILENT_S = 2.0  # A pod that gave no answer is asked last for so long.
_LIMIT_MIN_S = 0.25
_SLOW_TIMES = 4.0
# A 95th percentile of the times, followed step by step: 19 steps down weigh as much as one up.
_STEP_UP, _STEP_DOWN = 1.2, 1.2 ** (-1 / 19)
_SLOW_MIN_S, _SLOW_MAX_S = 0.001, 10.0


def is_silence(error: StoreError) -> bool:
    """Whether the pod that was asked gave no answer: a pod may tell of another pod's silence.

    Only the former error has a cause.
    """
    return error.__cause__ is not None


@dataclass(slots=True)
class _Pod:
    """The speed of one pod's answers, and the times of its answers and silence, in seconds."""

    slow_s: float = 0.025  # About 19 of 20 answers to point reads came sooner.
    silent_until_s: float = -math.inf
    answered_s: float = -math.inf  # The newest answer.


@dataclass(slots=True)
class KnownPods:
    """The pods of a store by their base URLs, as one client has met them.

    Times are in seconds of a monotonic clock.
    """

    _pods: dict[str, _Pod] = field(default_factory=lambda: defaultdict(_Pod))

    def in_order(self, bases: Iterable[str], now_s: float) -> list[str]:
        """The pods in the given order; pods that gave no answer a moment ago come last."""
        return sorted(bases, key=lambda base: self.is_silent(base, now_s))

    def quickest_first(self, bases: Iterable[str]) -> list[str]:
        """The pods by the time of their answers."""
        return sorted(bases, key=lambda base: self._pods[base].slow_s)

    def is_silent(self, base: str, now_s: float) -> bool:
        """Whether the pod gave no answer a moment ago."""
        return base in self._pods and now_s < self._pods[base].silent_until_s

    def point_limit_s(self, base: str) -> float:
        """The time for a point read, after which another replica is asked."""
        return max(_LIMIT_MIN_S, _SLOW_TIMES * self._pods[base].slow_s)

    def answered(self, base: str, now_s: float, took_s: float, *, is_point: bool) -> None:
        """Notes an answer and its time."""
        pod = self._pods[base]
        pod.silent_until_s, pod.answered_s = -math.inf, now_s
        if is_point:
            step = _STEP_UP if took_s > pod.slow_s else _STEP_DOWN
            pod.slow_s = min(_SLOW_MAX_S, max(_SLOW_MIN_S, pod.slow_s * step))

    def was_silent(self, base: str, asked_s: float, now_s: float, *, is_point: bool) -> None:
        """Notes that no answer came to a request of `asked_s`; others may have been answered."""
        pod = self._pods[base]
        if pod.answered_s < asked_s:
            pod.silent_until_s = now_s + SILENT_S
        if is_point:
            pod.slow_s = min(_SLOW_MAX_S, pod.slow_s * _STEP_UP)
