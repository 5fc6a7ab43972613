"""Swaps replicas between pods until those of a partition share no zone and no node, if possible."""

from collections.abc import Callable

from qss_core.model import Ordinal, PartitionId
from qss_operator.planning.placement.balance import is_even, take_from_fullest
from qss_operator.planning.placement.draft import Draft, Measure

_EXAMINED_MAX = 200_000  # Replicas, in each search for swaps.
_Swap = Callable[[Draft, PartitionId, Ordinal, Measure, int], bool]


def spread(draft: Draft) -> None:
    """Swap replicas between pods while this separates replicas that share a zone, or a node."""
    if len(set(draft.zones.values())) > 1:
        dearest = 0 if draft.is_frozen else 2
        for swap in (_swap_out, _chain_out):
            if draft.shared_zones() > draft.shares.shared_at_least:
                _separate(draft, draft.zones_shared, dearest, swap)
    if len(set(draft.nodes.values())) < len(draft.nodes):
        _separate(draft, draft.shared, 0, _swap_out)


def _separate(draft: Draft, shared: Measure, dearest: int, swap: _Swap) -> None:
    """Swap replicas with a `was_there` of at most `dearest` while less is `shared`."""
    draft.budget, improved = _EXAMINED_MAX, True
    while improved:
        improved = False
        for number, holders in enumerate(draft.holders):
            partition = PartitionId(number)
            there = [(draft.was_there(partition, pod), pod) for pod in holders & draft.may_move]
            for cost, pod in sorted(there):
                if shared(holders) == 0 or pod not in holders or cost > dearest:
                    continue
                if draft.budget <= 0:
                    return
                improved |= swap(draft, partition, pod, shared, dearest)


def _swap_out(
    draft: Draft, partition: PartitionId, pod: Ordinal, shared: Measure, dearest: int
) -> bool:
    """Move a replica away where less is shared then; whether such a move, or swap, exists."""
    for other in (other for other in draft.open if other not in draft.holders[partition]):
        gain = draft.gain(shared, partition, pod, other)
        if gain <= 0:
            continue
        if draft.loads[pod] > draft.loads[other]:
            draft.move(partition, pod, other)
            return True
        for back in sorted(draft.held[other] - draft.held[pod]):
            if draft.was_there(back, other) > dearest:
                continue
            draft.budget -= 1
            if draft.gain(shared, back, other, pod) > -gain:
                draft.move(partition, pod, other)
                draft.move(back, other, pod)
                return True
            if draft.budget <= 0:
                return False
    return False


def _chain_out(
    draft: Draft, partition: PartitionId, pod: Ordinal, shared: Measure, dearest: int
) -> bool:
    """As `_swap_out`, where replicas of further pods move until the loads are even again."""
    before = draft.shared_zones()
    for other in (other for other in draft.open if other not in draft.holders[partition]):
        if draft.gain(shared, partition, pod, other) <= 0:
            continue
        moves = [(partition, pod, other)]
        draft.move(*moves[0])
        while not is_even(draft) and (further := take_from_fullest(draft, dearest)):
            moves += further
        if is_even(draft) and draft.shared_zones() < before:
            return True
        for moved, source, target in reversed(moves):
            draft.move(moved, target, source)
    return False
