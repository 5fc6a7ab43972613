"""Places replicas on pods: balanced, sticky, spread over zones and nodes, deterministic."""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from qss_core.model import Epoch, Ordinal, PartitionConfiguration, PartitionId
from qss_operator.planning.actives import choose_actives
from qss_operator.planning.model import PodState
from qss_operator.planning.shares import fair_shares

_EXAMINED_MAX = 200_000  # Replicas, in each search for swaps.


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


def first_configurations(placements: Iterable[Placement]) -> tuple[PartitionConfiguration, ...]:
    """The configurations of a new store: with no data, every replica is in sync.

    The active is the last one: where a partition has more replicas than it should, the first ones
    go.
    """
    ordered = {
        entry.partition: tuple(sorted(entry.replicas, key=lambda pod: pod == entry.active))
        for entry in placements
    }
    return tuple(
        PartitionConfiguration(
            partition=entry.partition,
            epoch=Epoch(1),
            active=entry.active,
            in_sync=ordered[entry.partition],
            replicas=ordered[entry.partition],
        )
        for entry in placements
    )


def place(
    partitions: int, sites: Sequence[Site], standbys: int, previous: Sequence[Placement] = ()
) -> tuple[Placement, ...]:
    """A placement of every partition.

    The replicas of a partition are in different zones, and the numbers of replicas differ by at
    most one between pods. Where both cannot be, pods of small zones hold more than the others, up
    to the limit of `shares`; beyond it replicas share a zone. Closed pods get a replica only where
    no other pod can take it. Actives are as even as the replicas permit. Replicas of `previous`
    stay where balance and zones permit it. Zones come before nodes. A replica that has data never
    moves because of nodes: a pod may run on another one tomorrow.
    """
    assert sites, "a pod has to hold the partitions"
    copies = 1 + min(standbys, len(sites) - 1)
    draft = _Draft(partitions, sites, previous, copies)
    draft.keep(copies)
    draft.fill(copies)
    draft.balance()
    draft.spread()
    before = {entry.partition: entry.active for entry in previous}
    actives = choose_actives(draft.holders, [site.ordinal for site in sites], before)
    return tuple(
        Placement(
            partition=PartitionId(number),
            active=actives[number],
            replicas=tuple(sorted(pods, key=lambda pod: (pod != actives[number], pod))),
        )
        for number, pods in enumerate(draft.holders)
    )


_Measure = Callable[[set[Ordinal]], int]
_Swap = Callable[[PartitionId, Ordinal, _Measure, int], bool]
_Moves = list[tuple[PartitionId, Ordinal, Ordinal]]  # Partition, source, target.


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


class _Draft:
    """Replicas while they are being placed."""

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
        # Compared with the share of the pod: negative while it has less.
        self.budget = 0  # Replicas that a search for swaps may still examine.
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
                self._add(partition, pod)

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
                self._add(PartitionId(number), pod)

    def balance(self) -> None:
        """Move replicas from fuller to emptier pods until all are as far from their shares, or one.

        Replicas that were placed by this call move first, over several pods if necessary, as they
        have no data to copy. Replicas of `previous` move only after them.
        """
        left = set(self.loads)
        while left:
            fullest = min(left, key=lambda pod: (-self.loads[pod], pod))
            emptiest = self._emptiest()
            if emptiest is None or self.loads[fullest] - self.loads[emptiest] <= 1:
                return
            moves = self._path(fullest, emptiest, dearest=0)
            if not moves and not self.is_frozen:
                moves = self._path(fullest, emptiest, dearest=2)
            if not moves:
                left.discard(fullest)
            for moved, source, target in moves:
                self._move(moved, source, target)

    def _path(self, start: Ordinal, end: Ordinal, dearest: int, *, is_kept: bool = False) -> _Moves:
        """The moves that take one replica from `start`, over other pods, and give `end` one.

        Where `is_kept`, none of them lets more replicas share a zone, and the budget counts.
        """
        reached: dict[Ordinal, _Moves] = {start: []}
        queue = deque([start])
        while queue and end not in reached and not (is_kept and self.budget <= 0):
            pod = queue.popleft()
            # Try the end first: most paths have one step.
            for target in (end, *(other for other in self.open if other != end)):
                if target in reached:
                    continue
                moved = self._cheapest(pod, target, dearest, is_kept=is_kept)
                if moved is not None:
                    reached[target] = [*reached[pod], (moved, pod, target)]
                    queue.append(target)
                if target == end and end in reached:
                    break
        return reached.get(end, [])

    def _cheapest(
        self, source: Ordinal, target: Ordinal, dearest: int, *, is_kept: bool
    ) -> PartitionId | None:
        """The cheapest partition to move from `source` to `target`.

        Only partitions with a `_was_there` of at most `dearest` are considered. None if there is
        no such partition."""
        held = self.fresh if dearest == 0 else self.held
        found = held[source] - self.held[target]
        self.budget -= len(found)
        return min(
            (
                partition
                for partition in found
                if self._was_there(partition, source) <= dearest
                and not (is_kept and self._gain(self._zones_shared, partition, source, target) < 0)
            ),
            key=lambda partition: (
                self._zones_shared(self._after(partition, source, target)),
                self._was_there(partition, source),
                self._nodes_shared(self._after(partition, source, target)),
                partition,
            ),
            default=None,
        )

    def spread(self) -> None:
        """Swap replicas between pods while this separates replicas that share a zone, or a node."""
        if len(set(self.zones.values())) > 1:
            dearest = 0 if self.is_frozen else 2
            for swap in (self._swap_out, self._chain_out):
                if self._shared_zones() > self.shares.shared_at_least:
                    self._separate(self._zones_shared, dearest, swap)
        if len(set(self.nodes.values())) < len(self.nodes):
            self._separate(self._shared, 0, self._swap_out)

    def _separate(self, shared: _Measure, dearest: int, swap: _Swap) -> None:
        """Swap replicas with a `_was_there` of at most `dearest` while less is `shared`."""
        self.budget, improved = _EXAMINED_MAX, True
        while improved:
            improved = False
            for number, holders in enumerate(self.holders):
                partition = PartitionId(number)
                there = [(self._was_there(partition, pod), pod) for pod in holders & self.may_move]
                for cost, pod in sorted(there):
                    if shared(holders) == 0 or pod not in holders or cost > dearest:
                        continue
                    if self.budget <= 0:
                        return
                    improved |= swap(partition, pod, shared, dearest)

    def _swap_out(
        self, partition: PartitionId, pod: Ordinal, shared: _Measure, dearest: int
    ) -> bool:
        """Move a replica away where less is shared then; whether such a move, or swap, exists."""
        for other in (other for other in self.open if other not in self.holders[partition]):
            gain = self._gain(shared, partition, pod, other)
            if gain <= 0:
                continue
            if self.loads[pod] > self.loads[other]:
                self._move(partition, pod, other)
                return True
            for back in sorted(self.held[other] - self.held[pod]):
                if self._was_there(back, other) > dearest:
                    continue
                self.budget -= 1
                if self._gain(shared, back, other, pod) > -gain:
                    self._move(partition, pod, other)
                    self._move(back, other, pod)
                    return True
                if self.budget <= 0:
                    return False
        return False

    def _chain_out(
        self, partition: PartitionId, pod: Ordinal, shared: _Measure, dearest: int
    ) -> bool:
        """As `_swap_out`, where replicas of further pods move until the loads are even again."""
        before = self._shared_zones()
        for other in (other for other in self.open if other not in self.holders[partition]):
            if self._gain(shared, partition, pod, other) <= 0:
                continue
            moves = [(partition, pod, other)]
            self._move(*moves[0])
            while not self._is_even() and (further := self._evening(dearest)):
                moves += further
            if self._is_even() and self._shared_zones() < before:
                return True
            for moved, source, target in reversed(moves):
                self._move(moved, target, source)
        return False

    def _is_even(self) -> bool:
        emptiest = self._emptiest()
        return emptiest is None or max(self.loads.values()) - self.loads[emptiest] <= 1

    def _emptiest(self) -> Ordinal | None:
        """The pod that can take a replica and is the farthest below its share."""
        found = (pod for pod in self.open if len(self.held[pod]) < len(self.holders))
        return min(found, key=lambda pod: (self.loads[pod], pod), default=None)

    def _evening(self, dearest: int) -> _Moves:
        """Take a replica from a fullest pod to the emptiest while no more share a zone.

        Returns the moves that were made, or none.
        """
        emptiest = self._emptiest()
        assert emptiest is not None, "the loads are not even"
        most = max(self.loads.values())
        fullest = [pod for pod, load in self.loads.items() if load == most]
        for pod in fullest:
            moved = self._cheapest(pod, emptiest, dearest, is_kept=True)
            if moved is not None:
                self._move(moved, pod, emptiest)
                return [(moved, pod, emptiest)]
        for pod in fullest:
            if moves := self._path(pod, emptiest, dearest, is_kept=True):
                for step in moves:
                    self._move(*step)
                return moves
        return []

    def _shared_zones(self) -> int:
        return sum(map(self._zones_shared, self.holders))

    def _zones_shared(self, holders: set[Ordinal]) -> int:
        return len(holders) - len({self.zones[pod] for pod in holders})

    def _nodes_shared(self, holders: set[Ordinal]) -> int:
        return len(holders) - len({self.nodes[pod] for pod in holders})

    def _shared(self, holders: set[Ordinal]) -> int:
        """Zones and nodes that are shared; any zone counts for more than all nodes."""
        return len(self.zones) * self._zones_shared(holders) + self._nodes_shared(holders)

    def _after(self, partition: PartitionId, source: Ordinal, target: Ordinal) -> set[Ordinal]:
        return (self.holders[partition] - {source}) | {target}

    def _gain(
        self, shared: _Measure, partition: PartitionId, source: Ordinal, target: Ordinal
    ) -> int:
        """By how much less is shared after a move; negative where more is."""
        return shared(self.holders[partition]) - shared(self._after(partition, source, target))

    def _was_there(self, partition: PartitionId, pod: Ordinal) -> int:
        """0: a new replica; 1: a replica of `previous`; 2: its active, which moves last."""
        entry = self.previous.get(partition)
        if entry is None or pod not in entry.replicas:
            return 0
        return 2 if pod == entry.active else 1

    def _add(self, partition: PartitionId, pod: Ordinal) -> None:
        self.holders[partition].add(pod)
        self.held[pod].add(partition)
        if self._was_there(partition, pod) == 0:
            self.fresh[pod].add(partition)
        self.loads[pod] += 1

    def _move(self, partition: PartitionId, source: Ordinal, target: Ordinal) -> None:
        self.holders[partition].remove(source)
        self.held[source].remove(partition)
        self.fresh[source].discard(partition)
        self.loads[source] -= 1
        self._add(partition, target)
