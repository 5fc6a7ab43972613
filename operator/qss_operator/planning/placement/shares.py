"""Computes the number of replicas that each pod should hold, by the zones of the pods. Pure.

The replicas of a partition can be in different zones only if no zone holds more replicas than
there are partitions. Where the store has fewer zones than copies, each zone has to hold one
replica of each partition. A pod of a small zone then holds more than the others. `OVERLOAD` limits
that, because all volumes of a store have one size.
"""

import heapq
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from qss_core.model import Ordinal

OVERLOAD = 1.5  # The largest share of a pod, as a multiple of the even share.
POD_REPLICAS_MAX = 256  # The CRD has the same limit for the even share.


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """The number of replicas that each pod holds at least; each may hold one more.

    `shared_at_least` counts the replicas that share a zone with another one of their partition in
    the best placement with these shares.
    """

    of_pods: Mapping[Ordinal, int]
    shared_at_least: int


def fair_shares(partitions: int, zone_of: Mapping[Ordinal, str], copies: int) -> Shares:
    """The shares of the pods in `zone_of`, for `copies` replicas of each partition.

    They are even where different zones permit it, and where the zone of a pod is not known.
    """
    zones = Counter(zone_of.values())
    total = partitions * copies
    even, rest = divmod(total, len(zone_of))
    most = even + bool(rest)
    is_even = Shares(
        of_pods=dict.fromkeys(zone_of, even),
        shared_at_least=_shared(partitions, zones, most, total),
    )
    if len(zones) == 1 or copies == 1 or "" in zones:
        return is_even
    largest = min(math.ceil(OVERLOAD * total / len(zone_of)), max(POD_REPLICAS_MAX, most))
    largest = min(partitions, largest)
    held, is_bound = _held(partitions, zones, copies, largest)
    if all(even * pods <= held[zone] <= most * pods for zone, pods in zones.items()):
        return is_even
    shares = {zone: held[zone] // pods for zone, pods in zones.items()}
    # The replicas that are left over may go to any zone whose number is not fixed.
    free = min((shares[zone] for zone in zones if zone not in is_bound), default=0)
    shares |= {zone: free for zone in zones if zone not in is_bound}
    return Shares(
        # A pod that may hold one more stays within the limit.
        of_pods={pod: min(shares[zone], largest - 1) for pod, zone in zone_of.items()},
        shared_at_least=_shared(partitions, zones, largest, total),
    )


def _held(
    partitions: int, zones: Mapping[str, int], copies: int, largest: int
) -> tuple[dict[str, int], set[str]]:
    """The replicas of each zone, as even by pod as different zones and the limit permit.

    Returns also the zones that have as few, or as many, as these permit.
    """
    least = partitions if copies >= len(zones) else 0
    most = partitions * max(1, copies - len(zones) + 1)
    few = {zone: min(least, largest * pods) for zone, pods in zones.items()}
    room = {zone: min(most, largest * pods) for zone, pods in zones.items()}
    held = few.copy()
    left = _level(held, room, zones, partitions * copies - sum(held.values()))
    # The limit of a pod leaves replicas over: they share a zone.
    _level(held, {zone: largest * pods for zone, pods in zones.items()}, zones, left)
    return held, {zone for zone in zones if held[zone] in (few[zone], room[zone])}


def _shared(partitions: int, zones: Mapping[str, int], largest: int, total: int) -> int:
    """The replicas that no placement with at most `largest` replicas on a pod can separate."""
    return max(0, total - sum(min(partitions, pods * largest) for pods in zones.values()))


def _level(
    held: dict[str, int], room: Mapping[str, int], pods: Mapping[str, int], replicas: int
) -> int:
    """Give the zones replicas, the emptiest zone first; returns the zones without room."""
    open_zones = [(held[zone] // pods[zone], zone) for zone in held if held[zone] < room[zone]]
    heapq.heapify(open_zones)
    while open_zones and replicas > 0:
        _, zone = heapq.heappop(open_zones)
        held[zone] += 1
        replicas -= 1
        if held[zone] < room[zone]:
            heapq.heappush(open_zones, (held[zone] // pods[zone], zone))
    return replicas
