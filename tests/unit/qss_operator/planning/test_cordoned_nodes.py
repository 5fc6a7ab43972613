"""A pod on a cordoned node gets no new replica while another pod can take it."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qss_core.model import Ordinal, PartitionId
from qss_operator.planning.model import ConditionStatus, ConditionType
from qss_operator.planning.placement.place import place
from qss_operator.planning.placement.shares import fair_shares
from qss_operator.planning.placement.sites import Placement, Site
from qss_operator.planning.plan import places_replicas, plan
from qss_testing.fakes.control_world import World, assignment_of, resource_of, spec_of

Case = tuple[int, list[Site], int, list[Placement]]


def sites_of(pods: int, cordoned: set[int], zones: int = 1) -> list[Site]:
    return [
        Site(
            ordinal=Ordinal(n),
            zone=f"zone-{n % zones}",
            node=f"node-{n}",
            is_cordoned=n in cordoned,
        )
        for n in range(pods)
    ]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    pods = draw(st.integers(1, 7))
    sites = [
        Site(
            ordinal=Ordinal(n),
            zone=draw(st.sampled_from("abc")),
            node=draw(st.sampled_from(["", "x", "y", "z"])),
            is_cordoned=draw(st.booleans()),
        )
        for n in range(pods)
    ]
    partitions = draw(st.integers(1, 16))
    before = []
    for number in range(draw(st.integers(0, partitions))):
        held = draw(st.lists(st.integers(0, pods), min_size=1, max_size=4, unique=True))
        replicas = tuple(map(Ordinal, held))
        before.append(
            Placement(partition=PartitionId(number), active=replicas[0], replicas=replicas)
        )
    return partitions, sites, draw(st.integers(0, 4)), before


@given(cases())
@settings(deadline=None)
def test_a_replica_is_new_on_a_cordoned_node_only_where_no_other_pod_can_take_it(
    case: Case,
) -> None:
    partitions, sites, standbys, before = case
    placed = place(partitions, sites, standbys, before)
    cordoned = {site.ordinal for site in sites if site.is_cordoned}
    others = {site.ordinal for site in sites} - cordoned
    held = {entry.partition: {*entry.replicas} for entry in before}
    for entry in placed:
        assert len(set(entry.replicas)) == 1 + min(standbys, len(sites) - 1)
        new = {*entry.replicas} - held.get(entry.partition, set())
        if others and new & cordoned:
            assert others <= {*entry.replicas}
    copies = 1 + min(standbys, len(sites) - 1)
    shares = fair_shares(partitions, {site.ordinal: site.zone for site in sites}, copies).of_pods
    loads = Counter(pod for entry in placed for pod in entry.replicas)
    if others and len({*shares.values()}) == 1:  # Zones make no pod hold more.
        assert max(loads[pod] for pod in others) - min(loads[pod] for pod in others) <= 1


@given(cases())
@settings(deadline=None)
def test_no_replica_moves_while_all_nodes_are_cordoned(case: Case) -> None:
    partitions, sites, standbys, before = case
    frozen = [replace(site, is_cordoned=True) for site in sites]
    copies = 1 + min(standbys, len(sites) - 1)
    placed = {entry.partition: entry for entry in place(partitions, frozen, standbys, before)}
    pods = {site.ordinal for site in sites}
    for entry in before:
        kept = {*entry.replicas} & pods
        assert len(kept & {*placed[entry.partition].replicas}) == min(copies, len(kept))


def test_a_new_store_uses_the_pods_of_other_nodes() -> None:
    placed = place(12, sites_of(4, {1}), 1)
    assert Counter(pod for entry in placed for pod in entry.replicas) == {0: 8, 2: 8, 3: 8}


def test_a_new_store_is_even_where_all_nodes_are_cordoned() -> None:
    assert place(12, sites_of(3, {0, 1, 2}), 1) == place(12, sites_of(3, set()), 1)


def test_a_cordon_moves_nothing_and_its_end_lets_replicas_come() -> None:
    before = place(12, sites_of(3, set()), 1)
    assert place(12, sites_of(3, {2}), 1, before) == before
    grown = place(12, sites_of(4, {3}), 1, before)
    assert grown == before
    after = place(12, sites_of(4, set()), 1, grown)
    assert Counter(pod for entry in after for pod in entry.replicas)[Ordinal(3)] == 6


def test_a_swap_for_zones_brings_no_replica_to_a_cordoned_node() -> None:
    """Pods 0 and 2 share a zone, and so do 1 and 3: a swap would separate the replicas."""
    before = [
        Placement(partition=PartitionId(n), active=Ordinal(pods[0]), replicas=pods)
        for n, pods in enumerate([(Ordinal(0), Ordinal(2)), (Ordinal(1), Ordinal(3))] * 2)
    ]

    def new_on(pod: int, sites: list[Site]) -> int:
        placed = place(4, sites, 1, before)
        return sum(
            pod in entry.replicas and pod not in was.replicas
            for entry, was in zip(placed, before, strict=True)
        )

    assert sum(new_on(pod, sites_of(4, set(), zones=2)) for pod in range(4)) > 0
    for cordoned in range(4):
        assert new_on(cordoned, sites_of(4, {cordoned}, zones=2)) == 0


# --- A store whose nodes are cordoned.


def running(**spec: int) -> World:
    world = World(resource=resource_of(spec_of(**spec)))
    world.settle()
    return world


def ask_for(world: World, **spec: int) -> None:
    world.resource = replace(world.resource, spec=spec_of(**spec))


def cordon(world: World, *ordinals: int) -> None:
    for pod in world.pods:
        pod.node = f"node-{pod.ordinal}"
        pod.is_cordoned = pod.ordinal in ordinals


def replicas_on(world: World, pod: int) -> int:
    return sum(pod in entry.replicas for entry in assignment_of(world))


def rebalancing(world: World) -> tuple[ConditionStatus, str, str]:
    found = world.status().condition(ConditionType.REBALANCING)
    assert found is not None
    return found.status, found.reason, found.message


def grown_onto_a_cordoned_node() -> World:
    """A store of three pods that has got a fourth one, on a cordoned node."""
    world = running(replicas=3, standbys=1, partitions=6)
    ask_for(world, replicas=4, standbys=1, partitions=6)
    world.scale(4)
    cordon(world, 3)
    world.settle(50)
    return world


def test_a_pod_that_was_added_on_a_cordoned_node_waits_and_the_condition_names_the_node() -> None:
    world = grown_onto_a_cordoned_node()
    assert replicas_on(world, 3) == 0
    assert (world.status().moving, world.status().in_sync) == ("0/0", "12/12")
    assert rebalancing(world) == (
        ConditionStatus.FALSE,
        "NodeCordoned",
        "word-counts-3 gets no replica while its node is cordoned: it waits for "
        "`kubectl uncordon node-3`",
    )


def test_replicas_move_when_the_node_is_not_cordoned_any_more() -> None:
    world = grown_onto_a_cordoned_node()
    cordon(world)
    world.settle(50)
    assert replicas_on(world, 3) == 3
    assert rebalancing(world)[1] == "NothingToMove"


@pytest.mark.parametrize("cordoned", [(0,), (0, 1), (0, 1, 2)])
def test_a_cordon_of_a_store_at_rest_changes_nothing_and_needs_no_words(
    cordoned: tuple[int, ...],
) -> None:
    world = running(replicas=3, standbys=1, partitions=6)
    cordon(world, *cordoned)
    assert plan(world.observation()) == []
    assert rebalancing(world) == (
        ConditionStatus.FALSE,
        "NothingToMove",
        "every replica is where it should be",
    )


def test_a_partition_gets_its_standby_on_a_cordoned_node_where_no_other_pod_can_take_it() -> None:
    world = running(replicas=2, standbys=0, partitions=2)
    cordon(world, 1)
    ask_for(world, replicas=2, standbys=1, partitions=2)
    world.lagging = {0, 1}
    world.settle(50)
    (number,) = (one.partition for one in assignment_of(world) if one.active == 0)
    assert rebalancing(world)[2] == (
        f"word-counts-1 gets a replica of partition {number} although its node node-1 is "
        "cordoned: no other pod can take it, or the copy had begun"
    )
    world.lagging = set()
    world.settle(50)
    assert world.status().in_sync == "4/4"
    assert rebalancing(world)[1] == "NothingToMove"


def test_a_move_that_goes_on_names_the_pod_that_waits_too() -> None:
    world = grown_onto_a_cordoned_node()
    ask_for(world, replicas=4, standbys=0, partitions=6)
    status, reason, message = rebalancing(world)
    assert (status, reason) == (ConditionStatus.TRUE, "Moving")
    assert message.startswith("partition ")
    assert message.endswith("it waits for `kubectl uncordon node-3`")
    world.settle(50)
    assert replicas_on(world, 3) == 0


def test_a_smaller_store_goes_to_a_cordoned_node_rather_than_losing_its_standbys() -> None:
    world = running(replicas=3, standbys=1, partitions=6)
    cordon(world, 1)
    ask_for(world, replicas=2, standbys=1, partitions=6)
    world.settle(50)
    assert all({*entry.in_sync} == {0, 1} for entry in assignment_of(world))
    assert len(world.pods) == 2


def test_only_an_assignment_with_a_replica_in_a_new_place_makes_the_nodes_matter() -> None:
    world = World(resource=resource_of(spec_of(replicas=3, standbys=1)))
    for step in plan(world.observation()):
        world.apply(step)
    assert places_replicas(world.observation(), plan(world.observation())), "a new store"
    world.settle()
    world.pods[0].is_running = world.pods[0].is_reachable = False
    assert not places_replicas(world.observation(), plan(world.observation()))
    world.pods[0].is_running = world.pods[0].is_reachable = True
    ask_for(world, replicas=3, standbys=0)
    assert plan(world.observation())
    assert not places_replicas(world.observation(), plan(world.observation())), "only fewer"
    ask_for(world, replicas=3, standbys=2)
    assert places_replicas(world.observation(), plan(world.observation()))


@pytest.mark.parametrize(("partitions", "is_told"), [(3, False), (6, True)])
def test_a_cordoned_node_is_told_only_where_balance_would_bring_replicas_there(
    partitions: int, is_told: bool
) -> None:
    """Three pods with one replica each are even with a fourth one that has none."""
    world = running(replicas=3, partitions=partitions)
    ask_for(world, replicas=4, partitions=partitions)
    world.scale(4)
    cordon(world, 3)
    world.settle(50)
    assert replicas_on(world, 3) == 0
    assert (rebalancing(world)[1] == "NodeCordoned") == is_told
