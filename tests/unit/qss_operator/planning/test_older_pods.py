"""Pods of the version without standbys get none, take over from none, and stop a way back."""

from dataclasses import replace as changed
from typing import Any

import msgspec
import pytest

from qss_core.model import Ordinal, PartitionId
from qss_core.wire.losses import LostReplica
from qss_operator.planning.membership.failover import successor_of
from qss_operator.planning.model import ConditionType, Observation, RestartPod
from qss_operator.planning.plan import plan
from qss_operator.planning.status import status_of
from qss_testing.fakes.control_world import NOW, World, assignment_of, resource_of, spec_of

_ROUNDS = 200


def running(older: set[int], **spec: Any) -> World:
    world = World(resource=resource_of(spec_of(replicas=2, **spec)), older=older)
    world.settle(_ROUNDS)
    return world


def said(seen: Observation, kind: ConditionType) -> tuple[str, str]:
    condition = status_of(seen, NOW).condition(kind)
    assert condition is not None
    return condition.reason, condition.message


@pytest.mark.parametrize("older", [{0, 1}, {1}])
def test_standbys_that_are_asked_for_wait_for_newer_pods(older: set[int]) -> None:
    world = running(older)
    before = assignment_of(world)
    world.resource = changed(world.resource, spec=spec_of(replicas=2, standbys=1))
    world.settle(_ROUNDS)
    assert assignment_of(world) == before
    reason, message = said(world.observation(), ConditionType.REBALANCING)
    assert reason == "WaitingForPods"
    assert "word-counts-1 to restart with a program that has standbys" in message
    reason, message = said(world.observation(), ConditionType.DEGRADED)
    assert reason == "FewerStandbys"
    assert "word-counts-1 runs a version without standbys: use a newer image" in message
    world.older.clear()
    world.settle(_ROUNDS)
    assert all(len(entry.in_sync) == 2 for entry in assignment_of(world))
    assert said(world.observation(), ConditionType.DEGRADED)[0] == "Healthy"


def test_a_store_that_is_made_on_older_pods_has_no_standbys() -> None:
    world = running({0, 1}, standbys=1)
    assert {len(entry.replicas) for entry in assignment_of(world)} == {1}


def test_without_standbys_older_pods_are_in_no_trouble() -> None:
    seen = running({0, 1}).observation()
    assert said(seen, ConditionType.REBALANCING)[0] == "NothingToMove"
    assert said(seen, ConditionType.DEGRADED)[0] == "Healthy"


@pytest.mark.parametrize("older", [set(), {1}])
def test_an_older_pod_does_not_take_over(older: set[int]) -> None:
    world = running(set(), standbys=1)
    world.older = older
    world.pods[0].is_reachable = False
    world.silent_s[Ordinal(0)] = 60.0
    entry = next(one for one in assignment_of(world) if one.active == 0)
    successor = successor_of(world.observation(), entry, frozenset())
    assert successor == (None if older else 1)


def test_an_older_pod_that_cannot_open_its_partitions_keeps_the_others_from_its_program() -> None:
    world = running(set())
    world.template = 1
    assert [step.pod.ordinal for step in plan(world.observation()) if isinstance(step, RestartPod)]
    world.pods[1].template = 1
    world.older = {1}
    seen = world.observation()
    lost = LostReplica(partition=PartitionId(1), error="an entry has version 2: upgrade it")
    report = msgspec.structs.replace(seen.reports[Ordinal(1)], lost=(lost,))
    assert [step for step in plan(seen) if isinstance(step, RestartPod)]
    seen = changed(seen, reports={**seen.reports, Ordinal(1): report})
    assert not [step for step in plan(seen) if isinstance(step, RestartPod)]
    _, message = said(seen, ConditionType.PROGRESSING)
    assert (
        "word-counts-1 runs an older version, and cannot open partition 1: an entry has version "
        "2: upgrade it. Use the newer image again" in message
    )


@pytest.mark.parametrize("renewed", [set(), {0}])
def test_an_older_pod_that_cannot_open_its_partitions_gets_the_newer_image(
    renewed: set[int],
) -> None:
    """On the first way up, or after the newer image is back."""
    world = running(set())
    world.template = 1
    for pod in renewed:
        world.pods[pod].template = 1
    world.older = {0, 1} - renewed
    seen = world.observation()
    lost = LostReplica(partition=PartitionId(1), error="its files are damaged")
    report = msgspec.structs.replace(seen.reports[Ordinal(1)], lost=(lost,))
    seen = changed(seen, reports={**seen.reports, Ordinal(1): report})
    assert [step.pod.ordinal for step in plan(seen) if isinstance(step, RestartPod)] == [1]
