"""The condition Rebalancing: a move has ended when the replica that was left is deleted."""

from dataclasses import replace

from qss_operator.planning.model import ConditionType, RetireReplica
from qss_operator.planning.plan import plan
from qss_testing.fakes.control_world import World, resource_of, spec_of


def rebalancing(world: World) -> tuple[str, str]:
    condition = world.status().condition(ConditionType.REBALANCING)
    assert condition is not None
    return condition.reason, condition.message


def test_a_replica_that_no_configuration_names_counts_as_a_move_until_it_is_deleted() -> None:
    """A standby that came back before would join again with its own rows."""
    world = World(resource=resource_of(spec_of(partitions=2, replicas=2, standbys=1)))
    world.settle()
    assert rebalancing(world)[0] == "NothingToMove"
    spec = spec_of(partitions=2, replicas=2, standbys=0)
    world.resource = replace(world.resource, spec=spec)
    steps = plan(world.observation())
    while any(not isinstance(step, RetireReplica) for step in steps):
        for step in steps:
            if not isinstance(step, RetireReplica):
                world.apply(step)
        steps = plan(world.observation())
    assert all(len(entry.replicas) == 1 for entry in world.status().assignment or ())
    assert len(steps) == 2, "both are to be deleted"
    reason, message = rebalancing(world)
    assert reason == "Moving"
    assert "partition 0: leaves word-counts-" in message
    assert "partition 1: leaves word-counts-" in message
    assert world.status().moving == "2/2"
    for step in steps:
        world.apply(step)
    assert rebalancing(world)[0] == "NothingToMove"


def test_a_pause_holds_up_no_deletion_of_a_left_replica() -> None:
    world = World(resource=resource_of(spec_of(partitions=1, replicas=2, standbys=1)))
    world.settle()
    spec = spec_of(partitions=1, replicas=2, standbys=0)
    world.resource = replace(world.resource, spec=spec)
    world.settle(30)
    (entry,) = world.status().assignment or ()
    other = next(pod for pod in world.pods if pod.ordinal != entry.active)
    other.held = (entry,)
    paused = spec_of(partitions=1, replicas=2, standbys=0, rebalance={"paused": True})
    world.resource = replace(world.resource, spec=paused)
    assert rebalancing(world)[0] == "Moving"
    world.settle()
    assert rebalancing(world)[0] == "NothingToMove"


def test_replicas_that_share_a_node_are_told_and_a_pod_on_another_node_moves_nothing() -> None:
    world = World(resource=resource_of(spec_of(partitions=2, replicas=2, standbys=1)))
    world.settle()
    for pod in world.pods:
        pod.node = f"node-{pod.ordinal}"
    assert rebalancing(world) == ("NothingToMove", "every replica is where it should be")
    for pod in world.pods:
        pod.node = "node-0"
    assert plan(world.observation()) == []
    reason, message = rebalancing(world)
    assert reason == "NothingToMove"
    assert message.endswith("replicas of partition 0, 1 share a node, and fail with it")


def test_replicas_that_share_a_zone_are_told_where_other_zones_have_too_few_pods() -> None:
    spec = spec_of(partitions=4, replicas=4, standbys=1)
    world = World(resource=resource_of(spec))
    world.settle()
    for pod in world.pods:
        pod.zone = "a"
    assert rebalancing(world) == ("NothingToMove", "every replica is where it should be")
    world.pods[3].zone = "b"
    world.settle(60)
    reason, message = rebalancing(world)
    assert reason == "NothingToMove"
    (told,) = [one.partition for one in world.status().assignment or () if 3 not in one.replicas]
    assert message.endswith(f"replicas of partition {told} share a zone, and fail with it")


def test_a_left_replica_that_is_not_open_is_still_to_be_deleted_and_troubles_nobody() -> None:
    world = World(resource=resource_of(spec_of(partitions=1, replicas=2)))
    world.settle()
    (entry,) = world.status().assignment or ()
    other = next(pod for pod in world.pods if pod.ordinal != entry.active)
    other.lost, other.waiting = {entry.partition: "the volume is full"}, {entry.partition}
    reason, message = rebalancing(world)
    assert reason == "Moving"
    assert message.endswith(f"leaves {other.address.name}, when it is open: the volume is full")
    degraded = world.status().condition(ConditionType.DEGRADED)
    assert degraded is not None
    assert degraded.reason == "Healthy"
