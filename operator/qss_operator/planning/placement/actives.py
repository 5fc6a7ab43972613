"""Chooses the active of each partition among the pods with a replica: even, and sticky. Pure."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from qss_core.model import Ordinal, PartitionId


def choose_actives(
    holders: Sequence[set[Ordinal]],
    pods: Iterable[Ordinal],
    before: Mapping[PartitionId, Ordinal],
) -> list[Ordinal]:
    """The active of each partition, by its number; `holders` has the pods with a replica of it.

    The actives of `before` stay where the numbers of actives are as even as the replicas permit.
    """
    loads = dict.fromkeys(pods, 0)
    actives: list[Ordinal] = []
    for number, held_by in enumerate(holders):
        kept = before.get(PartitionId(number))
        active = kept if kept in held_by else min(held_by, key=lambda pod: (loads[pod], pod))
        actives.append(active)
        loads[active] += 1
    while (path := _relieving_path(holders, actives, loads)) is not None:
        for partition, target in path:
            loads[actives[partition]] -= 1
            loads[target] += 1
            actives[partition] = target
    return actives


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
