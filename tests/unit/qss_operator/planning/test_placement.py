"""Placement of replicas: even, stable, spread over zones, and the same for the same input."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations, combinations_with_replacement, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qss_core.model import Ordinal, PartitionId
from qss_operator.planning.placement.place import first_configurations, place
from qss_operator.planning.placement.shares import OVERLOAD, POD_REPLICAS_MAX, fair_shares
from qss_operator.planning.placement.sites import Placement, Site

Case = tuple[int, list[Site], int]


def sites_of(count: int, zones: int = 1) -> list[Site]:
    return [Site(ordinal=Ordinal(n), zone=f"zone-{n % zones}") for n in range(count)]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    pods = draw(st.integers(1, 7))
    zones = draw(st.lists(st.sampled_from("abc"), min_size=pods, max_size=pods))
    sites = [Site(ordinal=Ordinal(n), zone=zone) for n, zone in enumerate(zones)]
    return draw(st.integers(1, 24)), sites, draw(st.integers(0, 4))


@st.composite
def previous_placements(draw: st.DrawFn) -> list[Placement]:
    """Placements as another number of pods, or a person, may have made them."""
    placements = []
    for number in range(draw(st.integers(0, 24))):
        pods = draw(st.lists(st.integers(0, 8), min_size=1, max_size=4, unique=True))
        placements.append(
            Placement(
                partition=PartitionId(number),
                active=Ordinal(pods[0]),
                replicas=tuple(map(Ordinal, pods)),
            )
        )
    return placements


def spread_of(counts: Counter[Ordinal], sites: list[Site]) -> int:
    loads = [counts[site.ordinal] for site in sites]
    return max(loads) - min(loads)


def assert_even(placements: tuple[Placement, ...], case: Case) -> None:
    partitions, sites, standbys = case
    assert [entry.partition for entry in placements] == list(range(partitions))
    for entry in placements:
        assert len(set(entry.replicas)) == len(entry.replicas) == 1 + min(standbys, len(sites) - 1)
        assert entry.replicas[0] == entry.active
        assert set(entry.replicas) <= {site.ordinal for site in sites}
    assert spread_of(Counter(entry.active for entry in placements), sites) <= 1
    loads = Counter(pod for entry in placements for pod in entry.replicas)
    if len({site.zone for site in sites}) == 1:
        assert spread_of(loads, sites) <= 1
    most = OVERLOAD * partitions * (1 + min(standbys, len(sites) - 1)) / len(sites)
    assert max(loads.values()) <= math.ceil(most)


@given(cases())
@settings(deadline=None)
def test_replicas_and_actives_differ_by_one_at_most(case: Case) -> None:
    assert_even(place(*case), case)


@given(cases(), previous_placements())
@settings(deadline=None)
def test_placement_is_even_whatever_there_was_before(case: Case, before: list[Placement]) -> None:
    known = [entry for entry in before if entry.partition < case[0]]
    assert_even(place(*case, known), case)


@given(cases())
@settings(deadline=None)
def test_the_order_of_pods_does_not_matter(case: Case) -> None:
    partitions, sites, standbys = case
    assert place(partitions, sites, standbys) == place(partitions, sites[::-1], standbys)


@given(cases())
@settings(deadline=None)
def test_an_even_placement_is_kept(case: Case) -> None:
    once = place(*case)
    assert place(*case, once) == once


@pytest.mark.parametrize(("before", "after"), [(3, 4), (4, 3), (2, 5)])
def test_another_number_of_pods_moves_no_more_than_it_must(before: int, after: int) -> None:
    partitions, standbys = 24, 1
    old = place(partitions, sites_of(before), standbys)
    new = place(partitions, sites_of(after), standbys, old)
    moved = sum(
        len(set(entry.replicas) - set(was.replicas)) for entry, was in zip(new, old, strict=True)
    )
    # A new pod gets its share; the share of a removed pod goes to the others.
    fewest = partitions * (1 + standbys) * abs(after - before) // max(before, after)
    assert moved == fewest


@pytest.mark.parametrize(
    ("pods", "zones", "standbys"), [(4, 2, 1), (6, 3, 2), (6, 3, 1), (9, 3, 2)]
)
def test_replicas_of_a_partition_are_in_different_zones(
    pods: int, zones: int, standbys: int
) -> None:
    sites = sites_of(pods, zones)
    zone_of = {site.ordinal: site.zone for site in sites}
    for entry in place(36, sites, standbys):
        used = [zone_of[pod] for pod in entry.replicas]
        assert len(set(used)) == min(len(used), zones)


def on_nodes(count: int, nodes: int, zones: int = 1) -> list[Site]:
    return [
        Site(ordinal=Ordinal(n), zone=f"zone-{n % zones}", node=f"node-{n % nodes}")
        for n in range(count)
    ]


@pytest.mark.parametrize(
    ("pods", "nodes", "zones", "standbys"), [(4, 2, 1, 1), (6, 3, 1, 2), (6, 2, 1, 1), (8, 4, 2, 1)]
)
def test_replicas_of_a_new_partition_are_on_different_nodes(
    pods: int, nodes: int, zones: int, standbys: int
) -> None:
    sites = on_nodes(pods, nodes, zones)
    node_of = {site.ordinal: site.node for site in sites}
    zone_of = {site.ordinal: site.zone for site in sites}
    for entry in place(24, sites, standbys):
        assert len({node_of[pod] for pod in entry.replicas}) == 1 + standbys
        assert len({zone_of[pod] for pod in entry.replicas}) == min(zones, 1 + standbys)


def shared_zones(replicas: Iterable[Iterable[Ordinal]], zones: Sequence[str]) -> int:
    """The replicas that share a zone with another one of their partition."""
    return sum(len({*pods}) - len({zones[pod] for pod in pods}) for pods in replicas)


def loads_of(replicas: Iterable[Iterable[Ordinal]], pods: int) -> list[int]:
    counts = Counter(pod for held_by in replicas for pod in held_by)
    return [counts[Ordinal(pod)] for pod in range(pods)]


def held_before(*pods: tuple[int, ...]) -> list[Placement]:
    return [
        Placement(
            partition=PartitionId(number),
            active=Ordinal(replicas[0]),
            replicas=tuple(map(Ordinal, replicas)),
        )
        for number, replicas in enumerate(pods)
    ]


BEFORE = [
    held_before(),
    held_before((0, 1), (0, 1), (0, 1)),
    held_before((2, 1), (0, 2), (1, 0)),
    held_before((0, 1, 2), (2, 1, 0), (3, 2, 1)),
    held_before((3,), (3, 0, 1), (2, 3)),
]


def possible(partitions: int, zones: Sequence[str], copies: int) -> tuple[int, bool]:
    """The fewest replicas that have to share a zone, and whether even loads permit so few.

    All placements within the limit of a pod are tried.
    """
    pods = range(len(zones))
    largest = math.ceil(OVERLOAD * partitions * copies / len(zones))
    found = []
    for replicas in product(combinations(map(Ordinal, pods), copies), repeat=partitions):
        loads = loads_of(replicas, len(zones))
        if max(loads) <= largest:
            found.append((shared_zones(replicas, zones), max(loads) - min(loads) > 1))
    fewest, is_uneven = min(found)
    return fewest, not is_uneven


@pytest.mark.parametrize("copies", [2, 3])
@pytest.mark.parametrize("partitions", [1, 2, 3])
@pytest.mark.parametrize("pods", [3, 4])
def test_no_other_placement_within_the_limit_separates_more_or_is_more_even(
    pods: int, partitions: int, copies: int
) -> None:
    """The rule of zones and balance, against all placements of small stores."""
    for zones in combinations_with_replacement("abcd", pods):
        fewest, can_be_even = possible(partitions, zones, copies)
        sites = [Site(ordinal=Ordinal(n), zone=zone) for n, zone in enumerate(zones)]
        for before in BEFORE:
            known = [one for one in before if one.partition < partitions]
            placed = place(partitions, sites, copies - 1, known)
            replicas = [one.replicas for one in placed]
            loads = loads_of(replicas, pods)
            assert shared_zones(replicas, zones) == fewest, (zones, known, placed)
            assert not can_be_even or max(loads) - min(loads) <= 1, (zones, known, placed)


@given(cases(), previous_placements())
@settings(deadline=None)
def test_replicas_share_a_zone_only_where_the_limit_of_a_pod_leaves_no_other_way(
    case: Case, before: list[Placement]
) -> None:
    partitions, sites, standbys = case
    known = [entry for entry in before if entry.partition < partitions]
    placed = place(*case, known)
    zones = [site.zone for site in sites]
    copies = 1 + min(standbys, len(sites) - 1)
    zone_of = {site.ordinal: site.zone for site in sites}
    fewest = fair_shares(partitions, zone_of, copies).shared_at_least
    assert shared_zones([one.replicas for one in placed], zones) == fewest
    assert place(*case, placed) == placed


@pytest.mark.parametrize(
    ("zones", "standbys", "loads"),
    [
        ("aab", 1, [6, 6, 12]),  # The pod of the small zone has a replica of each partition.
        ("aaab", 1, [5, 5, 5, 9]),  # Up to the limit: three of twelve partitions share a zone.
        ("aabc", 2, [6, 6, 12, 12]),
        ("aabbc", 1, [5, 5, 5, 5, 4]),
    ],
)
def test_a_pod_of_a_small_zone_holds_up_to_half_more_than_its_even_share(
    zones: str, standbys: int, loads: list[int]
) -> None:
    sites = [Site(ordinal=Ordinal(n), zone=zone) for n, zone in enumerate(zones)]
    placed = place(12, sites, standbys)
    assert loads_of([one.replicas for one in placed], len(zones)) == loads


def test_replicas_leave_a_zone_that_they_share_where_no_two_pods_can_swap() -> None:
    sites = [Site(ordinal=Ordinal(n), zone=zone) for n, zone in enumerate("aab")]
    (placed,) = place(1, sites, 1, held_before((0, 1)))
    assert placed.replicas == (Ordinal(0), Ordinal(2))


def test_a_pod_of_a_small_zone_holds_no_more_replicas_than_a_pod_may_hold() -> None:
    sites = [Site(ordinal=Ordinal(n), zone=zone) for n, zone in enumerate("aab")]
    placed = place(300, sites, 1)
    assert loads_of([one.replicas for one in placed], 3) == [172, 172, POD_REPLICAS_MAX]
    assert shared_zones([one.replicas for one in placed], "aab") == 300 - POD_REPLICAS_MAX
    full = place(384, sites, 1)
    assert loads_of([one.replicas for one in full], 3) == [256, 256, 256]


def test_a_zone_that_is_not_known_makes_no_pod_hold_more() -> None:
    sites = [Site(ordinal=Ordinal(n), zone=zone) for n, zone in enumerate(["a", "a", ""])]
    assert loads_of([one.replicas for one in place(12, sites, 1)], 3) == [8, 8, 8]


def test_zones_come_before_nodes() -> None:
    """A zone fails as a whole, so two pods of one node in two zones are the smaller evil."""
    sites = [
        Site(ordinal=Ordinal(n), zone=f"zone-{n % 2}", node=f"node-{n // 2}") for n in range(4)
    ]
    zone_of = {site.ordinal: site.zone for site in sites}
    for entry in place(12, sites, 1):
        assert len({zone_of[pod] for pod in entry.replicas}) == 2


def test_a_pod_that_runs_on_another_node_moves_no_data() -> None:
    before = place(12, on_nodes(4, 4), 1)
    assert place(12, on_nodes(4, 2), 1, before) == before


def test_a_node_that_is_not_known_is_shared_with_nobody() -> None:
    assert place(12, sites_of(4), 1) == place(12, on_nodes(4, 4), 1)


def test_a_placement_that_ignored_zones_is_repaired_by_swaps() -> None:
    sites = sites_of(4, 2)
    zone_of = {site.ordinal: site.zone for site in sites}
    same_zone = [
        Placement(
            partition=PartitionId(number),
            active=Ordinal(number % 2),
            replicas=(Ordinal(number % 2), Ordinal(number % 2 + 2)),
        )
        for number in range(8)
    ]
    repaired = place(8, sites, 1, same_zone)
    assert all(len({zone_of[pod] for pod in entry.replicas}) == 2 for entry in repaired)
    assert_even(repaired, (8, sites, 1))


def test_the_largest_store_is_placed_quickly_enough_to_be_planned_in_every_round() -> None:
    case = (512, sites_of(64, 3), 2)
    assert_even(place(*case), case)


def test_a_new_store_begins_at_epoch_one_with_every_replica_in_sync() -> None:
    for entry in first_configurations(place(4, sites_of(3), 1)):
        assert entry.epoch == 1
        assert entry.in_sync == entry.replicas
