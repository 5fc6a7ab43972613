"""Numbers of pods: hibernation, and scaling, which waits until partitions have moved."""

from dataclasses import replace

import msgspec
import pytest

from qss_core.model import PartitionConfiguration, StoreId
from qss_operator.planning.assignment_state import PODS_STARTING, UnknownAssignment, assess
from qss_operator.planning.findings.served_partitions import is_serving
from qss_operator.planning.model import ConditionStatus, ConditionType, SetReplicas, StoreStatus
from qss_operator.planning.plan import plan
from qss_operator.planning.status import is_ready, status_of
from qss_testing.fakes.control_world import NOW, World, configuration, resource_of, running, spec_of


def ask_for(world: World, replicas: int) -> None:
    world.resource = replace(world.resource, spec=spec_of(replicas=replicas))


def status_of_world(world: World) -> StoreStatus:
    return status_of(world.observation(), NOW)


def reason(status: StoreStatus, kind: ConditionType) -> tuple[ConditionStatus, str]:
    found = status.condition(kind)
    assert found is not None
    return found.status, found.reason


def test_while_partitions_move_the_store_is_ready_and_says_what_moves() -> None:
    world = running()
    ask_for(world, 2)
    steps = plan(world.observation())
    assert not any(isinstance(step, SetReplicas) for step in steps), "the pod has data"
    status = status_of_world(world)
    assert is_ready(status)
    assert is_serving(status)
    assert status.moving in ("0/2", "2/2")
    for kind in (ConditionType.PROGRESSING, ConditionType.REBALANCING):
        assert reason(status, kind) == (ConditionStatus.TRUE, "Moving")
    assert reason(status, ConditionType.SCALE_DOWN_BLOCKED)[1] == "Draining"
    world.settle(60)
    assert len(world.pods) == 2


def test_a_store_of_no_pods_hibernates_and_keeps_its_assignment() -> None:
    world = running()
    before = status_of_world(world).assignment
    ask_for(world, 0)
    assert plan(world.observation()) == [SetReplicas(replicas=0)]
    world.wanted, world.pods = 0, []
    status = status_of_world(world)
    assert plan(world.observation()) == []
    assert reason(status, ConditionType.READY) == (ConditionStatus.FALSE, "Hibernated")
    assert reason(status, ConditionType.DEGRADED)[0] is ConditionStatus.FALSE
    assert status.assignment == before


def test_a_store_wakes_with_the_pods_that_hold_its_partitions() -> None:
    world = running()
    pods = world.pods
    ask_for(world, 0)
    world.settle()
    ask_for(world, 3)
    world.wanted, world.pods = 0, []
    assert plan(world.observation()) == [SetReplicas(replicas=3)]
    world.wanted, world.pods = 3, pods
    world.settle()
    assert reason(status_of_world(world), ConditionType.READY)[0] is ConditionStatus.TRUE


def test_too_few_pods_to_wake_with_are_not_taken() -> None:
    world = running()
    world.wanted, world.pods = 0, []
    ask_for(world, 1)
    assert plan(world.observation()) == [SetReplicas(replicas=3)]


def test_what_the_cluster_says_of_itself_gives_way_to_what_the_pods_say() -> None:
    world = running()
    finding = (ConditionStatus.TRUE, "RollingUpdate", "restarting words-2")
    observation = world.observation()
    cluster = replace(observation.cluster, findings={ConditionType.PROGRESSING: finding})
    status = status_of(replace(observation, cluster=cluster), NOW)
    assert reason(status, ConditionType.PROGRESSING) == (ConditionStatus.TRUE, "RollingUpdate")
    world.pods[2].is_running = world.pods[2].is_reachable = False
    observation = replace(
        world.observation(), cluster=replace(world.cluster(), findings=cluster.findings)
    )
    status = status_of(observation, NOW)
    assert reason(status, ConditionType.PROGRESSING)[1] == "PartitionsOpening"


def test_a_store_is_made_on_the_pods_that_stay_where_fewer_are_asked_for_meanwhile() -> None:
    world = World(resource=resource_of())
    world.scale(3)
    ask_for(world, 2)
    world.settle()
    assignment = world.status().assignment
    assert assignment is not None
    assert {pod for entry in assignment for pod in entry.replicas} == {0, 1}
    assert len(world.pods) == 2


def test_adopted_volumes_of_more_pods_than_the_spec_asks_for_are_heard_and_emptied() -> None:
    older = StoreId("older")
    spec = spec_of(partitions=3, replicas=2, standbys=1)
    world = World(resource=resource_of(spec, adopt_volumes=older))
    held = tuple(configuration(n, n, epoch=5, others=((n + 1) % 3,)) for n in range(3))
    world.scale(2)
    for pod in world.pods:
        pod.store_id = older
        pod.held = tuple(entry for entry in held if pod.ordinal in entry.replicas)
    assert plan(world.observation()) == [SetReplicas(replicas=3)]
    found = assess(world.observation())
    assert isinstance(found, UnknownAssignment)
    assert found.reason == PODS_STARTING
    world.scale(3)
    world.pods[2].store_id, world.pods[2].held = older, held[1:]
    world.settle(60)
    assignment = world.status().assignment
    assert assignment is not None
    assert all(entry.epoch > 5 for entry in assignment if 2 in held[entry.partition].replicas)
    assert {pod for entry in assignment for pod in entry.replicas} == {0, 1}
    assert len(world.pods) == 2
    assert reason(status_of_world(world), ConditionType.READY)[0] is ConditionStatus.TRUE


def adopting_one_of_three(pods_kept: int) -> tuple[World, tuple[PartitionConfiguration, ...]]:
    """A resource with one pod and no standbys, over the volumes of three pods."""
    older = StoreId("older")
    spec = spec_of(partitions=3, replicas=1, standbys=0)
    world = World(resource=resource_of(spec, adopt_volumes=older))
    held = tuple(configuration(n, n, epoch=5) for n in range(3))
    world.scale(1)
    world.pods[0].store_id, world.pods[0].held = older, held[:1]
    world.pods[0].written, world.pods[0].pods_kept = {0, 1, 2}, pods_kept
    return world, held


def test_adopted_volumes_without_standbys_are_found_with_fewer_pods_in_the_spec() -> None:
    world, held = adopting_one_of_three(pods_kept=3)
    assert plan(world.observation()) == [SetReplicas(replicas=3)]
    world.scale(3)
    for pod in world.pods[1:]:
        pod.store_id, pod.held = StoreId("older"), (held[pod.ordinal],)
        pod.pods_kept = 3
    for pod in world.pods:
        pod.written = {0, 1, 2}
    world.settle(60)
    assert {entry.active for entry in world.status().assignment or ()} == {0}
    assert len(world.pods) == 1
    assert reason(status_of_world(world), ConditionType.READY)[0] is ConditionStatus.TRUE


def test_volumes_that_do_not_exist_keep_no_pods_once_all_partitions_are_found() -> None:
    world, _ = adopting_one_of_three(pods_kept=3)
    world.pods[0].held = tuple(configuration(n, 0, epoch=5) for n in range(3))
    world.settle(60)
    assert len(world.pods) == 1
    assert world.status().assigned == "3/3"


@pytest.mark.parametrize("pods_kept", [0, 10_000])
def test_where_partitions_are_missing_more_pods_are_the_first_advice(pods_kept: int) -> None:
    """A pod of before says nothing of its kept assignment, and a rogue one may say anything."""
    world, _ = adopting_one_of_three(pods_kept)
    assert plan(world.observation()) == []
    found = assess(world.observation())
    assert isinstance(found, UnknownAssignment)
    assert "no pod holds partition 1, 2" in found.message
    assert "set spec.replicas to that number" in found.message
    assert "delete" not in found.message


def test_an_older_configuration_on_a_volume_starts_no_pod() -> None:
    world = running()
    status = world.resource.status
    assert status is not None
    published = tuple(configuration(n, n % 3, epoch=3) for n in range(6))
    world.resource = replace(
        world.resource, status=msgspec.structs.replace(status, assignment=published)
    )
    world.pods[0].held = (configuration(0, 0, epoch=2, others=(4,)), *world.pods[0].held[1:])
    assert not any(isinstance(step, SetReplicas) for step in plan(world.observation()))
