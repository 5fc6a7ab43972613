"""The pods as the placement sees them, and the placement of one partition."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from qss_core.model import Ordinal, PartitionId
from qss_operator.planning.model import PodState


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A pod that may hold replicas, its zone, and its node; "" where that is not known.

    A cordoned node is about to be drained, or broken, and a full volume has no room for a copy:
    such a pod is closed, and gets no new replicas.
    """

    ordinal: Ordinal
    zone: str = ""
    node: str = ""
    is_cordoned: bool = False
    is_full: bool = False

    @property
    def is_closed(self) -> bool:
        return self.is_cordoned or self.is_full


def sites_of(pods: Iterable[PodState], full: Collection[Ordinal]) -> list[Site]:
    """The pods as the placement sees them; the volumes of those in `full` have no room."""
    return [
        Site(
            ordinal=pod.ordinal,
            zone=pod.zone,
            node=pod.node,
            is_cordoned=pod.is_cordoned,
            is_full=pod.ordinal in full,
        )
        for pod in pods
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The pods of one partition; the active is among the replicas."""

    partition: PartitionId
    active: Ordinal
    replicas: tuple[Ordinal, ...]
