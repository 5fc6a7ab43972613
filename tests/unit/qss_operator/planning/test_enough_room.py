"""Rule EnoughRoom: pods go only where the pods that stay have room for what they hold."""

from dataclasses import replace
from typing import Any

import pytest

from qss_core.model import Ordinal
from qss_core.wire.replica_reports import VolumeUse
from qss_operator.planning.model import ConditionStatus, ConditionType
from qss_operator.planning.plan import plan
from qss_testing.fakes.control_world import (
    World,
    assignment_of,
    outdated,
    resource_of,
    restarted_next,
    spec_of,
)

GIB = 1024**3


def running(**spec: Any) -> World:
    """Pods with 2 GiB each, in equally large replicas."""
    world = World(resource=resource_of(spec_of(**spec)))
    world.settle()
    for pod in world.pods:
        pod.volume = VolumeUse(room_bytes=GIB, data_bytes=2 * GIB)
    return world


def ask_for(world: World, *, ignored: str | None = None, **spec: Any) -> None:
    world.resource = replace(world.resource, spec=spec_of(**spec), ignored_rules=ignored)


def condition(world: World, kind: ConditionType) -> tuple[ConditionStatus, str, str]:
    found = world.status().condition(kind)
    assert found is not None
    return found.status, found.reason, found.message


def replicas_on(world: World, pod: int) -> int:
    return sum(pod in entry.replicas for entry in assignment_of(world))


@pytest.mark.parametrize("standbys", [0, 1])
def test_a_pod_keeps_its_replicas_while_the_others_have_no_room_for_them(standbys: int) -> None:
    world = running(replicas=3, standbys=standbys, partitions=6)
    for pod in world.pods:
        pod.volume = VolumeUse(room_bytes=GIB // 2, data_bytes=2 * GIB)
    held = replicas_on(world, 2)
    ask_for(world, replicas=2, standbys=standbys, partitions=6)
    world.settle(30)
    assert replicas_on(world, 2) == held
    assert condition(world, ConditionType.SCALE_DOWN_BLOCKED) == (
        ConditionStatus.TRUE,
        "NotEnoughRoom",
        "word-counts-2 cannot be emptied, by the rule EnoughRoom: word-counts-0 has room for 512 "
        "MiB and would get 1 GiB, word-counts-1 has room for 512 MiB and would get 1 GiB. Free "
        "space or make the volumes larger (spec.storage.size), or keep the pods with spec.replicas "
        "3. To move the replicas all the same: kubectl annotate qss word-counts --overwrite "
        "queryablestate.dev/ignored-rules=EnoughRoom",
    )
    assert condition(world, ConditionType.REBALANCING) == (
        ConditionStatus.FALSE,
        "NothingToMove",
        "replicas stay on pods that are to be removed, by the rule EnoughRoom",
    )


@pytest.mark.parametrize("mend", ["room", "ignored", "unknown"])
def test_the_pod_goes_once_there_is_room_or_a_person_says_so(mend: str) -> None:
    world = running(replicas=3, standbys=1, partitions=6)
    for pod in world.pods:
        pod.volume = VolumeUse(room_bytes=GIB // 2, data_bytes=2 * GIB)
    asked: dict[str, Any] = {"replicas": 2, "standbys": 1, "partitions": 6}
    ask_for(world, **asked)
    world.settle(30)
    if mend == "ignored":
        ask_for(world, ignored="Other, EnoughRoom", **asked)
    else:
        use = VolumeUse(room_bytes=GIB, data_bytes=2 * GIB) if mend == "room" else None
        for pod in world.pods:
            pod.volume = use
    world.settle(80)
    assert len(world.pods) == 2
    assert world.status().in_sync == "12/12"


def test_another_number_takes_the_scale_down_back() -> None:
    world = running(replicas=3, standbys=0, partitions=6)
    world.pods[0].volume = VolumeUse(room_bytes=0, data_bytes=2 * GIB)
    before = assignment_of(world)
    ask_for(world, replicas=2, partitions=6)
    world.settle(30)
    ask_for(world, replicas=3, partitions=6)
    assert plan(world.observation()) == []
    assert assignment_of(world) == before
    assert condition(world, ConditionType.SCALE_DOWN_BLOCKED)[1] == "NoScaleDown"


def test_moves_between_pods_that_stay_need_no_room_by_this_rule() -> None:
    world = running(replicas=2, standbys=0, partitions=6)
    for pod in world.pods:
        pod.volume = VolumeUse(room_bytes=0, data_bytes=2 * GIB)
    ask_for(world, replicas=3, partitions=6)
    world.scale(3)
    world.settle(60)
    assert replicas_on(world, 2) == 2


def test_pods_restart_while_the_replicas_of_one_that_goes_stay() -> None:
    """Their actives are handed over before, also those of partitions that the pod has."""
    world = outdated(replicas=3, standbys=1, partitions=6)
    for pod in world.pods:
        pod.volume = VolumeUse(room_bytes=GIB // 2, data_bytes=2 * GIB)
    held = replicas_on(world, 2)
    ask_for(world, replicas=2, standbys=1, partitions=6)
    restarted = [pod for _ in range(100) for pod in restarted_next(world)]
    assert sorted(restarted) == [0, 1, 2]
    assert replicas_on(world, 2) == held


def test_a_partition_whose_pod_goes_and_is_dead_gets_another_replica() -> None:
    """It has one copy, and no room is made by waiting for the dead pod."""
    world = running(replicas=4, standbys=1, partitions=6)
    for pod in world.pods:
        pod.volume = VolumeUse(room_bytes=GIB // 8, data_bytes=2 * GIB)
    ask_for(world, replicas=2, standbys=1, partitions=6)
    world.settle(30)
    held = [entry.partition for entry in assignment_of(world) if 3 in entry.replicas]
    assert held
    world.pods[3].is_running = False
    world.silent_s[Ordinal(3)] = 599.0
    world.settle(30)
    assert replicas_on(world, 3) == len(held)
    world.silent_s[Ordinal(3)] = 601.0
    before = replicas_on(world, 2)
    world.settle(60)
    assert replicas_on(world, 3) == 0
    assert replicas_on(world, 2) == before, "the other pod that goes keeps what has no room"
    assert all(len(entry.in_sync) == 2 for entry in assignment_of(world))
