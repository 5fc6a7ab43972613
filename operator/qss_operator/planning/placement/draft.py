"""The replicas of a store while they are being placed, and the zones and nodes that they share."""

from collections.abc import Callable, Iterable, Sequence

from qss_core.model import Ordinal, PartitionId
from qss_operator.planning.placement.shares import fair_shares
from qss_operator.planning.placement.sites import Placement, Site

# How much the replicas of a partition, on these pods, share.
Measure = Callable[[set[Ordinal]], int]


class Draft:
    """The pods of each partition's replicas, and the number of replicas of each pod."""

    def __init__(
        self,
        partitions: int,
        sites: Sequence[Site],
        previous: Sequence[Placement],
        copies: int,
    ) -> None:
        self.zones = {site.ordinal: site.zone for site in sorted(sites, key=lambda s: s.ordinal)}
        self.shares = fair_shares(partitions, self.zones, copies)
        # A pod whose node is not known shares it with no other one.
        self.nodes = {site.ordinal: site.node or f"of pod {site.ordinal}" for site in sites}
        # Where all pods are closed, new replicas go to any with room, and no other one moves.
        self.is_frozen = all(site.is_closed for site in sites)
        self.open = _open(sites)
        self.may_move = set(self.open)
        self.full = {site.ordinal for site in sites if site.is_full}
        self.budget = 0  # Replicas that a search for swaps may still examine.
        # Compared with the share of the pod: negative while it has less.
        self.loads = {pod: -share for pod, share in self.shares.of_pods.items()}
        self.holders: list[set[Ordinal]] = [set() for _ in range(partitions)]
        self.held: dict[Ordinal, set[PartitionId]] = {pod: set() for pod in self.zones}
        # The partitions of `held` that are not in `previous`: they have no data to copy.
        self.fresh: dict[Ordinal, set[PartitionId]] = {pod: set() for pod in self.zones}
        self.previous = {entry.partition: entry for entry in previous}

    def keep(self, copies: int) -> None:
        """Begin with the replicas of `previous`, the active first."""
        for partition, entry in self.previous.items():
            order = sorted(entry.replicas, key=lambda pod: pod != entry.active)
            for pod in [pod for pod in order if pod in self.zones][:copies]:
                self.add(partition, pod)

    def fill(self, copies: int) -> None:
        """Give every partition as many replicas as it should have."""
        pods = list(self.zones)
        index = {pod: place for place, pod in enumerate(pods)}
        in_zone = _by_name(self.zones.values())
        on_node = _by_name(self.nodes[pod] for pod in pods)
        is_closed = [pod not in self.open for pod in pods]
        is_full = [pod in self.full for pod in pods]  # A copy on a cordoned node at least ends.
        # Prefer pairs of pods that share few partitions: when a pod fails, or is removed, its
        # partitions then go to many other pods.
        together = {pod: [0] * len(pods) for pod in pods}
        none = [0] * len(pods)
        for number, holders in enumerate(self.holders):
            while len(holders) < copies:
                zones, nodes = none.copy(), none.copy()
                for pod in holders:
                    for place in in_zone[self.zones[pod]]:
                        zones[place] += 1
                    for place in on_node[self.nodes[pod]]:
                        nodes[place] += 1
                pairs = map(sum, zip(none, *(together[pod] for pod in holders), strict=True))
                ranks = zip(
                    is_closed, is_full, zones, nodes, self.loads.values(), pairs, pods, strict=True
                )
                *_, pod = min(rank for rank in ranks if rank[-1] not in holders)
                for other in holders:
                    together[other][index[pod]] += 1
                    together[pod][index[other]] += 1
                self.add(PartitionId(number), pod)

    def shared_zones(self) -> int:
        return sum(map(self.zones_shared, self.holders))

    def zones_shared(self, holders: set[Ordinal]) -> int:
        return len(holders) - len({self.zones[pod] for pod in holders})

    def nodes_shared(self, holders: set[Ordinal]) -> int:
        return len(holders) - len({self.nodes[pod] for pod in holders})

    def shared(self, holders: set[Ordinal]) -> int:
        """Zones and nodes that are shared; any zone counts for more than all nodes."""
        return len(self.zones) * self.zones_shared(holders) + self.nodes_shared(holders)

    def after(self, partition: PartitionId, source: Ordinal, target: Ordinal) -> set[Ordinal]:
        return (self.holders[partition] - {source}) | {target}

    def gain(
        self, shared: Measure, partition: PartitionId, source: Ordinal, target: Ordinal
    ) -> int:
        """By how much less is shared after a move; negative where more is."""
        return shared(self.holders[partition]) - shared(self.after(partition, source, target))

    def was_there(self, partition: PartitionId, pod: Ordinal) -> int:
        """0: a new replica; 1: a replica of `previous`; 2: its active, which moves last."""
        entry = self.previous.get(partition)
        if entry is None or pod not in entry.replicas:
            return 0
        return 2 if pod == entry.active else 1

    def add(self, partition: PartitionId, pod: Ordinal) -> None:
        self.holders[partition].add(pod)
        self.held[pod].add(partition)
        if self.was_there(partition, pod) == 0:
            self.fresh[pod].add(partition)
        self.loads[pod] += 1

    def move(self, partition: PartitionId, source: Ordinal, target: Ordinal) -> None:
        self.holders[partition].remove(source)
        self.held[source].remove(partition)
        self.fresh[source].discard(partition)
        self.loads[source] -= 1
        self.add(partition, target)


def _by_name(names: Iterable[str]) -> dict[str, list[int]]:
    """The places at which each name stands."""
    places: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        places.setdefault(name, []).append(place)
    return places


def _open(sites: Sequence[Site]) -> list[Ordinal]:
    """The pods that get new replicas: pods that are not closed, else pods with room, else all."""
    with_room = [site for site in sites if not site.is_full]
    found = [site for site in with_room if not site.is_cordoned] or with_room or sites
    return sorted(site.ordinal for site in found)
