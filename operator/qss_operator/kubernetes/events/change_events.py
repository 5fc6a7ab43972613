"""Makes events of the changes of an assignment: at most one of a reason in a minute. Pure.

Changes of one reason that follow within a minute are told by the same event, whose message grows.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from qss_core.model import PartitionId, StoreName
from qss_core.text import listed
from qss_operator.kubernetes.events.event_limits import EventType
from qss_operator.planning.membership.changes import Changes, Led, Replica

_GROUP_S = 60.0
_PARTITIONS_SHOWN = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeEvent:
    """An event; one of the same `group` takes the place of it."""

    type: EventType
    reason: str
    message: str
    group: str


@dataclass(slots=True)
class _Group:
    """The changes of one reason: the partitions, by what happened to them."""

    name: str
    began_s: float
    partitions: dict[str, dict[PartitionId, None]] = field(default_factory=dict)


class ChangeEvents:
    """The events of one store's partitions."""

    def __init__(self, store: StoreName) -> None:
        self._store = store
        self._groups: dict[str, _Group] = {}
        self._begun = 0

    def of(self, changes: Changes, now_s: float) -> list[ChangeEvent]:
        """The events of the changes, at a monotonic time in seconds."""
        found: dict[str, None] = {}
        for reason, what, partition in self._sentences(changes):
            group = self._groups.get(reason)
            if group is None or now_s - group.began_s >= _GROUP_S:
                self._begun += 1
                group = self._groups[reason] = _Group(f"{reason}-{self._begun}", now_s)
            group.partitions.setdefault(what, {})[partition] = None
            found[reason] = None
        return [self._event(reason) for reason in found]

    def _event(self, reason: str) -> ChangeEvent:
        group = self._groups[reason]
        said = [f"{what}: {_shown(of)}" for what, of in group.partitions.items()]
        return ChangeEvent(
            type=EventType.WARNING if reason in _WARNINGS else EventType.NORMAL,
            reason=reason,
            message="; ".join(said),
            group=group.name,
        )

    def _sentences(self, changes: Changes) -> Iterator[tuple[str, str, PartitionId]]:
        """Yields the reason of each change, a sentence about it, and the partition."""
        for one in changes.failovers:
            yield "FailedOver", self._led("{before} does not act, {by} leads", one), one.partition
        for one in changes.handovers:
            yield "HandedOver", self._led("{before} handed over to {by}", one), one.partition
        replicas: tuple[tuple[str, str, Iterable[Replica]], ...] = (
            ("LeftInSync", "no longer in sync on {}", changes.left_sync),
            ("MoveBegun", "a new replica on {}", changes.begun),
            ("MoveDone", "in sync on {}", changes.done),
            ("MoveCancelled", "no new replica on {}", changes.cancelled),
            ("Rejoined", "in sync again on {}", changes.rejoined),
            ("ReplicaRemoved", "no replica any more on {}", changes.removed),
        )
        for reason, what, changed in replicas:
            for partition, pod in sorted(changed):
                yield reason, what.format(f"{self._store}-{pod}"), partition

    def _led(self, what: str, led: Led) -> str:
        return what.format(before=f"{self._store}-{led.before}", by=f"{self._store}-{led.by}")


_WARNINGS = ("FailedOver", "LeftInSync")


def _shown(partitions: Iterable[PartitionId]) -> str:
    names = [str(one) for one in sorted(partitions)]
    return f"partition{'s' if len(names) > 1 else ''} {listed(names, _PARTITIONS_SHOWN)}"
