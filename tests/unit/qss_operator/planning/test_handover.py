"""A pod that Kubernetes ends hands over its partitions before it is gone."""

from dataclasses import dataclass, replace
from typing import Any

import pytest
from msgspec import structs

from qss_core.model import Offset, Ordinal, Role, Sequence
from qss_core.wire.replica_reports import ReplicaReport, ReplicasReport, UnlikeRows
from qss_operator.planning.model import Observation, RestartPod
from qss_operator.planning.plan import plan
from qss_testing.fakes.control_world import World, assignment_of, resource_of, spec_of

_ROUNDS = 50


def settled(**spec: Any) -> World:
    """A store of three pods with rows in every replica; pod 1 is then told to end."""
    world = World(resource=resource_of(spec_of(**{"standbys": 1, **spec})))
    ready(world)
    return world


@dataclass(kw_only=True)
class SayingWorld(World):
    """Pod 1 says that it leaves, once it `says`."""

    says: bool = False

    def observation(self) -> Observation:
        seen = super().observation()
        told = {
            pod: structs.replace(report, is_leaving=self.says and pod == 1)
            for pod, report in seen.reports.items()
        }
        return replace(seen, reports=told)


@dataclass(kw_only=True)
class TroubledWorld(World):
    """The replicas of one pod are in trouble, once it `is_troubled`."""

    pod: Ordinal
    which: str
    is_troubled: bool = False

    def observation(self) -> Observation:
        seen = super().observation()
        reports = {pod: self._troubled(report) for pod, report in seen.reports.items()}
        return replace(seen, reports=reports if self.is_troubled else seen.reports)

    def _troubled(self, report: ReplicasReport) -> ReplicasReport:
        told = tuple(self._told(one, report.ordinal) for one in report.replicas)
        return structs.replace(report, replicas=told)

    def _told(self, one: ReplicaReport, pod: Ordinal) -> ReplicaReport:
        if self.which == "unlike":
            held = one.configuration
            pods = (held.active, self.pod)
            unlike = UnlikeRows(pods=pods, epoch=held.epoch, sequence=Sequence(7), offset=Offset(9))
            is_told = one.role is Role.ACTIVE and self.pod in held.in_sync and pod != self.pod
            return structs.replace(one, unlike=unlike) if is_told else one
        if pod != self.pod:
            return one
        if self.which == "opening":
            return structs.replace(one, state="opening")
        return structs.replace(one, **{self.which: True})


def ready(world: World) -> None:
    """Settles a new store with rows, and ends its pod 1."""
    world.settle(_ROUNDS)
    for pod in world.pods:
        pod.written = set(range(world.resource.spec.partitions))
    world.leaving = {1}


def run(world: World) -> None:
    for _ in range(_ROUNDS):
        for step in plan(world.observation()):
            world.apply(step)


def counts_on(world: World, pod: int) -> list[int]:
    """The partitions that count the pod, and others, as in sync."""
    return [
        one.partition for one in assignment_of(world) if pod in one.in_sync and len(one.in_sync) > 1
    ]


def test_no_partition_counts_on_a_pod_that_is_ended() -> None:
    world = settled()
    before = assignment_of(world)
    assert counts_on(world, 1)
    world.settle(_ROUNDS)
    assert counts_on(world, 1) == []
    for old, new in zip(before, assignment_of(world), strict=True):
        assert new.active != 1
        assert set(new.replicas) == set(old.replicas), "the pod comes back with its replicas"
        assert set(new.in_sync) == set(old.in_sync) - {1}
        assert (new.active == old.active) or old.active == 1


def test_the_active_leaves_before_its_replica_leaves_the_in_sync_set() -> None:
    world = settled(partitions=3)
    seen = {
        one.partition: [(one.active, tuple(sorted(one.in_sync)))]
        for one in assignment_of(world)
        if one.active == 1
    }
    assert seen
    for _ in range(_ROUNDS):
        steps = plan(world.observation())
        for step in steps:
            world.apply(step)
        for one in assignment_of(world):
            if one.partition in seen:
                seen[one.partition].append((one.active, tuple(sorted(one.in_sync))))
    for states in seen.values():
        kinds = list(dict.fromkeys(states))
        [(first, both), (second, still), (last, alone)] = kinds
        assert (first, both) == (1, still)
        assert second == last != 1
        assert alone == (last,)


def test_partitions_are_handed_over_while_another_pod_is_silent() -> None:
    world = settled(replicas=4, partitions=8)
    led = [one for one in assignment_of(world) if one.active == 1]
    stuck = {one.partition for one in led if set(one.replicas) == {1, 3}}
    assert len(stuck) < len(led)
    world.pods[3].is_reachable = False
    for _ in range(_ROUNDS):
        for step in plan(world.observation()):
            world.apply(step)
    assert {one.partition for one in assignment_of(world) if one.active == 1} == stuck


def test_the_new_actives_are_on_several_pods() -> None:
    world = settled(replicas=3, standbys=2, partitions=6)
    led = [one.partition for one in assignment_of(world) if one.active == 1]
    world.settle(_ROUNDS)
    assert len({one.active for one in assignment_of(world) if one.partition in led}) == 2


def test_the_new_actives_are_on_nodes_that_are_not_cordoned() -> None:
    world = settled(replicas=3, standbys=2, partitions=6)
    world.pods[0].is_cordoned = True
    led = [one.partition for one in assignment_of(world) if one.active == 1]
    world.settle(_ROUNDS)
    assert {one.active for one in assignment_of(world) if one.partition in led} == {2}


@pytest.mark.parametrize("hinders", ["uncompared", "promised"])
def test_a_standby_that_cannot_act_at_once_takes_nothing_over(hinders: str) -> None:
    world = settled(replicas=2, partitions=2)
    setattr(world, hinders, {0})
    before = [one.partition for one in assignment_of(world) if one.active == 1]
    for _ in range(_ROUNDS):
        for step in plan(world.observation()):
            world.apply(step)
    assert [one.partition for one in assignment_of(world) if one.active == 1] == before != []


@pytest.mark.parametrize("pods", [{0, 1}, {0, 1, 2}])
def test_pods_that_are_ended_take_nothing_over_from_each_other(pods: set[int]) -> None:
    world = settled()
    world.leaving = pods
    among = [one for one in assignment_of(world) if set(one.in_sync) <= pods]
    assert among
    world.settle(_ROUNDS)
    after = assignment_of(world)
    assert [after[one.partition] for one in among] == among


@pytest.mark.parametrize("which", ["unlike", "is_stopped", "has_damage"])
def test_a_standby_in_trouble_takes_over_only_where_no_other_can(which: str) -> None:
    world = TroubledWorld(
        resource=resource_of(spec_of(standbys=2, partitions=6)), pod=Ordinal(0), which=which
    )
    ready(world)
    led = [one.partition for one in assignment_of(world) if one.active == 1]
    world.is_troubled = True
    run(world)
    assert {one.active for one in assignment_of(world) if one.partition in led} == {2}


def test_an_active_whose_rows_a_person_keeps_stays_where_it_is() -> None:
    world = TroubledWorld(
        resource=resource_of(spec_of(standbys=1, partitions=6)), pod=Ordinal(2), which="unlike"
    )
    ready(world)
    led = [one for one in assignment_of(world) if one.active == 1 and 2 in one.in_sync]
    assert led
    world.is_troubled = True
    spec = spec_of(standbys=0, partitions=6, rebalance={"paused": True})
    world.resource = replace(world.resource, spec=spec)
    run(world)
    assert [assignment_of(world)[one.partition] for one in led] == led


@pytest.mark.parametrize("trouble", ["opening", "is_stopped"])
def test_an_active_in_trouble_keeps_the_standby_that_leaves(trouble: str) -> None:
    world = TroubledWorld(
        resource=resource_of(spec_of(standbys=1, replicas=2, partitions=2)),
        pod=Ordinal(0),
        which=trouble,
    )
    ready(world)
    followed = [one for one in assignment_of(world) if one.active == 0]
    assert followed
    world.is_troubled = True
    for step in plan(world.observation()):
        world.apply(step)
    assert [assignment_of(world)[one.partition].in_sync for one in followed] == [
        one.in_sync for one in followed
    ]


def test_no_failover_goes_to_a_pod_that_is_ended() -> None:
    world = settled(replicas=2, partitions=2)
    led = [one for one in assignment_of(world) if one.active == 0]
    assert led
    world.pods[0].is_reachable = False
    world.silent_s[Ordinal(0)] = 600.0
    run(world)
    assert [assignment_of(world)[one.partition] for one in led] == led


def test_a_pod_may_say_itself_that_it_leaves() -> None:
    """As in the shutdown of a node, which marks no pod as being deleted."""
    world = SayingWorld(resource=resource_of(spec_of(standbys=1)))
    ready(world)
    world.leaving = set()
    assert counts_on(world, 1)
    world.says, world.lagging = True, {1}
    run(world)
    assert counts_on(world, 1) == []


def test_a_store_without_standbys_stays_as_it_is() -> None:
    world = settled(standbys=0)
    assert plan(world.observation()) == []


def test_a_pod_that_is_ended_joins_no_in_sync_set() -> None:
    world = settled()
    world.settle(_ROUNDS)
    world.leaving = set()
    world.lagging = {1}
    world.settle(_ROUNDS)
    world.lagging, world.leaving = set(), {1}
    world.settle(_ROUNDS)
    assert counts_on(world, 1) == []


def test_the_pod_gets_its_share_again_when_it_is_back() -> None:
    world = settled()
    before = {one.partition: set(one.in_sync) for one in assignment_of(world)}
    led = len([one for one in assignment_of(world) if one.active == 1])
    world.settle(_ROUNDS)
    world.leaving = set()
    world.pods[1].restart()
    world.settle(_ROUNDS)
    assert {one.partition: set(one.in_sync) for one in assignment_of(world)} == before
    assert len([one for one in assignment_of(world) if one.active == 1]) == led


def test_nothing_else_moves_and_no_pod_restarts_meanwhile() -> None:
    world = settled()
    world.template = 1
    world.settle(_ROUNDS)
    assert not any(isinstance(step, RestartPod) for step in plan(world.observation()))
    world.resource = resource_of(spec_of(standbys=1, replicas=4), world.resource.status)
    world.scale(4)
    before = [one.replicas for one in assignment_of(world)]
    world.settle(_ROUNDS)
    assert [one.replicas for one in assignment_of(world)] == before
