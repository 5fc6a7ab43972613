"""Placement of replicas: even, stable, spread over zones, and the same for the same input."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qss_core.model import Ordinal, PartitionId
from qss_operator.planning.placement import Placement, Site, first_configurations, place

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
    assert spread_of(Counter(pod for e in placements for pod in e.replicas), sites) <= 1


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
