"""Chooses the replica to read a partition from, and the next one after a failure. Pure.

The replica of this pod comes first. Then comes the active; then, unless the read needs the active,
the other in-sync replicas, so that a partition whose active is down can still be read within the
bound. Pods that gave no answer a moment ago come last.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from qss_core.errors import (
    AccessUnknownError,
    DeadlineExceededError,
    DiskFullError,
    NotActiveError,
    NotPresentError,
    NotReadyError,
    NotUpToBoundError,
    OverloadedError,
    RolledBackError,
    StoreError,
    StoreNotFoundError,
    TooStaleError,
    UnreachableError,
)
from qss_core.model import Ordinal, PartitionConfiguration, PodAddress
from qss_core.queries.parameters import ReadOptions, Scope

# Failures after which another replica may answer. All others are of the request or the rows.
_ELSEWHERE = (
    AccessUnknownError,
    DeadlineExceededError,
    DiskFullError,  # A full volume keeps the replica from being opened.
    NotActiveError,
    NotPresentError,
    NotReadyError,
    NotUpToBoundError,
    OverloadedError,
    RolledBackError,
    StoreNotFoundError,
    TooStaleError,
    UnreachableError,
)
_SENT_ON = (NotActiveError, NotPresentError)
_SILENT = (UnreachableError, DeadlineExceededError)


def _weight(error: StoreError) -> int:
    """Ranks failures by what they tell: "ask X" least, "no answer" more, all others most."""
    if isinstance(error, _SENT_ON):
        return 0
    return 1 if isinstance(error, _SILENT) else 2


@dataclass(slots=True)
class ReplicaRouter:
    """The replicas of one partition that a read may still ask, in order."""

    waiting: list[Ordinal]
    may_ask_others: bool
    asked: set[Ordinal] = field(default_factory=set)
    failure: StoreError | None = None

    @classmethod
    def of(
        cls,
        configuration: PartitionConfiguration,
        here: Ordinal,
        options: ReadOptions,
        silent: Collection[Ordinal] = (),
        *,
        is_open_here: bool = True,
    ) -> "ReplicaRouter":
        """The replicas that a read's options allow.

        An active on this pod that is not open may have a successor that the pod was not told of,
        since a full volume keeps no newer assignment: the in-sync replicas are asked, and none but
        an active answers.
        """
        if options.scope is Scope.LOCAL:
            return cls([here], may_ask_others=False)
        active = configuration.active
        is_known = active != here or is_open_here
        others = () if options.require_active and is_known else sorted(configuration.in_sync)
        order = [active, *(pod for pod in others if pod != active)]
        # The sort is stable: this pod comes first, the others keep their order.
        return cls(sorted(order, key=lambda pod: (pod != here, pod in silent)), may_ask_others=True)

    @property
    def is_over(self) -> bool:
        return not self.waiting

    def take(self) -> Ordinal:
        pod = self.waiting.pop(0)
        self.asked.add(pod)
        return pod

    def skip(self, pod: Ordinal) -> None:
        """Notes that the pod was asked already."""
        self.asked.add(pod)
        self.waiting = [one for one in self.waiting if one != pod]

    def share_of(self, remaining_s: float) -> float:
        """The time for the replica that was taken, so that the others can still be asked."""
        return remaining_s / (1 + len(self.waiting))

    def fail(self, error: StoreError, pods: Iterable[PodAddress]) -> None:
        """Notes a failure; the active that it names is asked next, once."""
        if self.failure is None or _weight(error) >= _weight(self.failure):
            self.failure = error
        if not isinstance(error, _ELSEWHERE):
            self.waiting.clear()
            return
        if not self.may_ask_others:
            return
        named = error.details.get("active")
        for pod in pods:
            if pod.name == named and pod.ordinal not in self.asked:
                self.waiting = [pod.ordinal, *(one for one in self.waiting if one != pod.ordinal)]
