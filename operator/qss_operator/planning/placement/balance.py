"""Moves replicas from fuller to emptier pods, over other pods where necessary."""

from collections import deque

from qss_core.model import Ordinal, PartitionId
from qss_operator.planning.placement.draft import Draft

Moves = list[tuple[PartitionId, Ordinal, Ordinal]]  # Partition, source, target.


def balance(draft: Draft) -> None:
    """Moves replicas from fuller to emptier pods until their loads fit their shares.

    The loads, each compared with the share of its pod, then differ by at most one.

    Replicas that are not in `previous` move first, over several pods if necessary, as they
    have no data to copy. Replicas of `previous` move only after them.
    """
    left = set(draft.loads)
    while left:
        fullest = min(left, key=lambda pod: (-draft.loads[pod], pod))
        emptiest = _emptiest(draft)
        if emptiest is None or draft.loads[fullest] - draft.loads[emptiest] <= 1:
            return
        moves = _path(draft, fullest, emptiest, dearest=0)
        if not moves and not draft.is_frozen:
            moves = _path(draft, fullest, emptiest, dearest=2)
        if not moves:
            left.discard(fullest)
        for moved, source, target in moves:
            draft.move(moved, source, target)


def _path(
    draft: Draft, start: Ordinal, end: Ordinal, dearest: int, *, is_kept: bool = False
) -> Moves:
    """The moves that take one replica from `start`, over other pods, and give `end` one.

    Where `is_kept`, none of them lets more replicas share a zone, and the budget counts.
    """
    reached: dict[Ordinal, Moves] = {start: []}
    queue = deque([start])
    while queue and end not in reached and not (is_kept and draft.budget <= 0):
        pod = queue.popleft()
        # Try the end first: most paths have one step.
        for target in (end, *(other for other in draft.open if other != end)):
            if target in reached:
                continue
            moved = _cheapest(draft, pod, target, dearest, is_kept=is_kept)
            if moved is not None:
                reached[target] = [*reached[pod], (moved, pod, target)]
                queue.append(target)
            if target == end and end in reached:
                break
    return reached.get(end, [])


def _cheapest(
    draft: Draft, source: Ordinal, target: Ordinal, dearest: int, *, is_kept: bool
) -> PartitionId | None:
    """The cheapest partition to move from `source` to `target`.

    Only partitions with a `was_there` of at most `dearest` are considered. None if there is no
    such partition.
    """
    held = draft.fresh if dearest == 0 else draft.held
    found = held[source] - draft.held[target]
    draft.budget -= len(found)
    return min(
        (
            partition
            for partition in found
            if draft.was_there(partition, source) <= dearest
            and not (is_kept and draft.gain(draft.zones_shared, partition, source, target) < 0)
        ),
        key=lambda partition: (
            draft.zones_shared(draft.after(partition, source, target)),
            draft.was_there(partition, source),
            draft.nodes_shared(draft.after(partition, source, target)),
            partition,
        ),
        default=None,
    )


def is_even(draft: Draft) -> bool:
    emptiest = _emptiest(draft)
    return emptiest is None or max(draft.loads.values()) - draft.loads[emptiest] <= 1


def _emptiest(draft: Draft) -> Ordinal | None:
    """The pod that can take a replica and is the farthest below its share."""
    found = (pod for pod in draft.open if len(draft.held[pod]) < len(draft.holders))
    return min(found, key=lambda pod: (draft.loads[pod], pod), default=None)


def take_from_fullest(draft: Draft, dearest: int) -> Moves:
    """Move a replica from a fullest pod to the emptiest if no more replicas share a zone then.

    Returns the moves that were made, or none.
    """
    emptiest = _emptiest(draft)
    assert emptiest is not None, "the loads are not even"
    most = max(draft.loads.values())
    fullest = [pod for pod, load in draft.loads.items() if load == most]
    for pod in fullest:
        moved = _cheapest(draft, pod, emptiest, dearest, is_kept=True)
        if moved is not None:
            draft.move(moved, pod, emptiest)
            return [(moved, pod, emptiest)]
    for pod in fullest:
        if moves := _path(draft, pod, emptiest, dearest, is_kept=True):
            for step in moves:
                draft.move(*step)
            return moves
    return []
