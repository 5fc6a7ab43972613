"""Places replicas on pods: balanced, sticky, spread over zones and nodes, deterministic."""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from qss_core.model import Epoch, Ordinal, PartitionConfiguration, PartitionId
from qss_operator.planning.model import PodState

_SWAPS_EXAMINED_MAX = 200_000


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

    The numbers of replicas, and of actives, differ by at most one between pods, but for pods that
    are closed: these get a replica only where no other pod can take it. Replicas of
    `previous` stay where balance permits it. Balance comes before zones: pods of one zone share a
    partition only where no swap would help. Zones come before nodes. A replica that has data never
    moves because of nodes: a pod may run on another one tomorrow.
    """
    assert sites, "a pod has to hold the partitions"
    copies = 1 + min(standbys, len(sites) - 1)
    board = _Board(partitions, sites, previous)
    board.keep(copies)
    board.fill(copies)
    board.balance()
    board.spread()
    return _choose_actives(board.holders, sites, previous)


_Measure = Callable[[set[Ordinal]], int]


def _by_name(names: Iterable[str]) -> dict[str, list[int]]:
    """The places at which each name stands."""
    places: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        places.setdefault(name, []).append(place)
    return places


def _open(sites: Sequence[Site]) -> list[Ordinal]:
    """The pods that get new replicas: those that are not closed, else those with room, else all."""
    with_room = [site for site in sites if not site.is_full]
    found = [site for site in with_room if not site.is_cordoned] or with_room or sites
    return sorted(site.ordinal for site in found)


class _Board:
    """Replicas while they are being placed."""

    def __init__(
        self, partitions: int, sites: Sequence[Site], previous: Sequence[Placement]
    ) -> None:
        self.zones = {site.ordinal: site.zone for site in sorted(sites, key=lambda s: s.ordinal)}
        # A pod whose node is not known shares it with no other one.
        self.nodes = {site.ordinal: site.node or f"of pod {site.ordinal}" for site in sites}
        # Where all pods are closed, new replicas go to any with room, and no other one moves.
        self.is_frozen = all(site.is_closed for site in sites)
        self.open = _open(sites)
        self.full = {site.ordinal for site in sites if site.is_full}
        self.loads = dict.fromkeys(self.zones, 0)
        self.holders: list[set[Ordinal]] = [set() for _ in range(partitions)]
        self.held: dict[Ordinal, set[PartitionId]] = {pod: set() for pod in self.zones}
        # Those of `held` that are not of `previous`: they have no data to copy.
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
        """Move replicas from fuller to emptier pods until all differ by one at most.

        Replicas that were placed by this call move first, over several pods if necessary, as they
        have no data to copy. Replicas of `previous` move only after them.
        """
        while True:
            fullest = min(self.loads, key=lambda pod: (-self.loads[pod], pod))
            emptiest = min(self.open, key=lambda pod: (self.loads[pod], pod))
            if self.loads[fullest] - self.loads[emptiest] <= 1:
                return
            moves = self._free_path(fullest, emptiest)
            if self.is_frozen and not moves:
                return
            # A partition to move exists: the fullest pod holds more partitions than the emptiest.
            for moved, source, target in moves or [
                (self._cheapest(fullest, emptiest, dearest=2), fullest, emptiest)
            ]:
                assert moved is not None, "a fuller pod holds what the emptier does not"
                self._move(moved, source, target)

    def _free_path(
        self, start: Ordinal, end: Ordinal
    ) -> list[tuple[PartitionId | None, Ordinal, Ordinal]]:
        reached: dict[Ordinal, list[tuple[PartitionId | None, Ordinal, Ordinal]]] = {start: []}
        queue = deque([start])
        while queue and end not in reached:
            pod = queue.popleft()
            # Try the end first: most paths have one step.
            for target in (end, *(other for other in self.open if other != end)):
                if target in reached:
                    continue
                moved = self._cheapest(pod, target, dearest=0)
                if moved is not None:
                    reached[target] = [*reached[pod], (moved, pod, target)]
                    queue.append(target)
                if target == end and end in reached:
                    break
        return reached.get(end, [])

    def _cheapest(self, source: Ordinal, target: Ordinal, dearest: int) -> PartitionId | None:
        """The cheapest partition to move from `source` to `target`.

        Only partitions with a `_was_there` of at most `dearest` are considered. None if there is
        no such partition."""
        held = self.fresh if dearest == 0 else self.held
        return min(
            (
                partition
                for partition in held[source] - self.held[target]
                if self._was_there(partition, source) <= dearest
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
            self._separate(self._zones_shared, dearest=0 if self.is_frozen else 2)
        if len(set(self.nodes.values())) < len(self.nodes):
            self._separate(self._shared, dearest=0)

    def _separate(self, shared: _Measure, dearest: int) -> None:
        """Swap replicas with a `_was_there` of at most `dearest` while less is `shared`."""
        budget, improved = _SWAPS_EXAMINED_MAX, True
        while improved and budget > 0:
            improved = False
            for number, holders in enumerate(self.holders):
                partition = PartitionId(number)
                for pod in sorted(holders & set(self.open)):
                    if shared(holders) == 0 or pod not in holders:
                        continue
                    if self._was_there(partition, pod) > dearest:
                        continue
                    done, budget = self._swap_out(partition, pod, budget, shared, dearest)
                    improved |= done

    def _swap_out(
        self, partition: PartitionId, pod: Ordinal, budget: int, shared: _Measure, dearest: int
    ) -> tuple[bool, int]:
        before = shared(self.holders[partition])
        for other in (other for other in self.open if other not in self.holders[partition]):
            gain = before - shared(self._after(partition, pod, other))
            if gain <= 0:
                continue
            for back in sorted(self.held[other] - self.held[pod]):
                if self._was_there(back, other) > dearest:
                    continue
                budget -= 1
                loss = shared(self._after(back, other, pod)) - shared(self.holders[back])
                if loss < gain:
                    self._move(partition, pod, other)
                    self._move(back, other, pod)
                    return True, budget
                if budget <= 0:
                    return False, 0
        return False, budget

    def _zones_shared(self, holders: set[Ordinal]) -> int:
        return len(holders) - len({self.zones[pod] for pod in holders})

    def _nodes_shared(self, holders: set[Ordinal]) -> int:
        return len(holders) - len({self.nodes[pod] for pod in holders})

    def _shared(self, holders: set[Ordinal]) -> int:
        """Zones and nodes that are shared; any zone counts for more than all nodes."""
        return len(self.zones) * self._zones_shared(holders) + self._nodes_shared(holders)

    def _after(self, partition: PartitionId, source: Ordinal, target: Ordinal) -> set[Ordinal]:
        return (self.holders[partition] - {source}) | {target}

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


def _choose_actives(
    holders: Sequence[set[Ordinal]], sites: Sequence[Site], previous: Sequence[Placement]
) -> tuple[Placement, ...]:
    before = {entry.partition: entry.active for entry in previous}
    loads = {site.ordinal: 0 for site in sites}
    actives: list[Ordinal] = []
    for number, pods in enumerate(holders):
        kept = before.get(PartitionId(number))
        active = kept if kept in pods else min(pods, key=lambda pod: (loads[pod], pod))
        actives.append(active)
        loads[active] += 1
    while (path := _relieving_path(holders, actives, loads)) is not None:
        for partition, target in path:
            loads[actives[partition]] -= 1
            loads[target] += 1
            actives[partition] = target
    return tuple(
        Placement(
            partition=PartitionId(number),
            active=actives[number],
            replicas=tuple(sorted(pods, key=lambda pod: (pod != actives[number], pod))),
        )
        for number, pods in enumerate(holders)
    )


def _relieving_path(
    holders: Sequence[set[Ordinal]], actives: Sequence[Ordinal], loads: dict[Ordinal, int]
) -> list[tuple[int, Ordinal]] | None:
    """Changes of actives that move one active from a pod to a pod with at least two fewer.

    None where no such changes exist: then the numbers are as even as the replicas permit. Even
    replicas always permit numbers of actives that differ by at most one.
    """
    led: dict[Ordinal, list[int]] = {pod: [] for pod in loads}
    for partition, active in enumerate(actives):
        led[active].append(partition)
    for start in sorted(loads, key=lambda pod: (-loads[pod], pod)):
        if loads[start] - min(loads.values()) <= 1:
            return None
        reached: dict[Ordinal, list[tuple[int, Ordinal]]] = {start: []}
        queue = deque([start])
        while queue:
            pod = queue.popleft()
            if loads[pod] <= loads[start] - 2:
                return reached[pod]
            for partition in led[pod]:
                for target in sorted(holders[partition] - reached.keys()):
                    reached[target] = [*reached[pod], (partition, target)]
                    queue.append(target)
    return None
