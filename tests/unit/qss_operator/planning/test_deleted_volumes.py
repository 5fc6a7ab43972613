"""A pod whose volume is deleted: it restarts where other pods have its data, and only there."""

from dataclasses import replace as changed
from typing import Any

import hypothesis
import hypothesis.strategies as st
import pytest
from msgspec.structs import replace

from qss_core.model import Epoch, Offset, Ordinal, Sequence
from qss_core.spec.resource import RebalanceSpec
from qss_core.wire.replica_reports import UnlikeRows
from qss_operator.planning.membership.restarts import next_restart, why_data_would_be_lost
from qss_operator.planning.model import ConditionType, Observation, RestartPod
from qss_operator.planning.plan import plan
from qss_operator.planning.status import status_of
from qss_testing.fakes.control_world import NOW, World, assignment_of, resource_of, spec_of

_ROUNDS = 60


def running(**spec: Any) -> World:
    world = World(resource=resource_of(spec_of(**spec)))
    world.settle()
    for pod in world.pods:
        pod.written = set(range(world.resource.spec.partitions))
    return world


def delete_volume(world: World, *pods: int) -> None:
    for pod in pods:
        world.pods[pod].deleted_volume = f"data-word-counts-{pod}"


def restarted(world: World, rounds: int = _ROUNDS) -> list[int]:
    """Runs rounds; the pods that restart. None of them has an active, or the last copy."""
    found: list[int] = []
    for _ in range(rounds):
        for step in plan(world.observation()):
            if isinstance(step, RestartPod):
                found.append(step.pod.ordinal)
                assert all(step.pod.ordinal not in entry.in_sync for entry in assignment_of(world))
            world.apply(step)
        assert all(entry.active in entry.in_sync for entry in assignment_of(world))
    return found


def condition(world: World, kind: ConditionType, seen: Observation | None = None) -> str:
    found = status_of(seen or world.observation(), NOW).condition(kind)
    assert found is not None
    return f"{found.status} {found.reason}: {found.message}"


@pytest.mark.parametrize("standbys", [1, 2])
def test_the_pod_restarts_and_its_copies_are_made_anew(standbys: int) -> None:
    world = running(replicas=3, standbys=standbys, partitions=6)
    delete_volume(world, 1)
    assert condition(world, ConditionType.DEGRADED) == (
        "True VolumeDeleted: data-word-counts-1 is deleted, and the data goes when word-counts-1 "
        "stops: the other replicas take over, the operator restarts word-counts-1 with a new "
        "volume, and copies the data to it"
    )
    assert condition(world, ConditionType.PROGRESSING).startswith(
        "True ReplacingVolume: data-word-counts-1 is deleted; word-counts-1 leaves the in-sync"
    )
    assert restarted(world) == [1]
    assert all(len(entry.in_sync) == 1 + standbys for entry in assignment_of(world))
    assert condition(world, ConditionType.DEGRADED).startswith("False Healthy")


def test_of_several_pods_the_next_one_waits_until_the_copies_are_in_sync() -> None:
    world = running(replicas=3, standbys=2, partitions=3)
    delete_volume(world, 0, 1)
    world.lagging = {0}
    assert restarted(world) == [0]
    assert "waiting until word-counts-0 is in sync with partitions 0, 1, 2, before" in condition(
        world, ConditionType.PROGRESSING
    )
    world.lagging = set()
    assert restarted(world) == [1]


def test_no_pod_with_the_only_copy_restarts() -> None:
    world = running(replicas=3, standbys=0, partitions=3)
    delete_volume(world, 1)
    assert restarted(world) == []
    said = condition(world, ConditionType.DEGRADED)
    assert "does not restart word-counts-1" in said
    assert "no other replica of partition 1 is in sync and sound" in said
    assert said.endswith("what is to be lost goes by deleting those pods")


def test_a_pod_waits_while_its_standby_is_not_in_sync() -> None:
    world = running(replicas=2, standbys=1, partitions=2)
    world.lagging = {0}
    world.pods[0].lost = {0: "damaged"}
    for _ in range(5):
        for step in plan(world.observation()):
            world.apply(step)
    world.pods[0].lost = {}
    delete_volume(world, 1)
    assert restarted(world) == []
    world.lagging = set()
    assert restarted(world) == [1]


def test_a_pause_and_an_unsound_copy_keep_the_pod() -> None:
    paused = running(replicas=2, standbys=1, rebalance=RebalanceSpec(paused=True))
    delete_volume(paused, 1)
    assert restarted(paused) == []
    assert ": rebalance.paused is true" in condition(paused, ConditionType.DEGRADED)
    held = running(replicas=2, standbys=1, partitions=2)
    delete_volume(held, 1)
    seen = held.observation()
    seen = changed(seen, cluster=changed(seen.cluster, holds_restarts="no certificate"))
    entries = {entry.partition: entry for entry in assignment_of(held)}
    why = why_data_would_be_lost(seen, seen.cluster.pods[1], entries)
    assert why == "a new pod could not start: no certificate"
    for state in ("behind", "failed", "opening"):
        world = running(replicas=2, standbys=1, partitions=2)
        delete_volume(world, 1)
        seen = world.observation()
        other = seen.reports[Ordinal(0)]
        told = tuple(replace(one, state=state) for one in other.replicas)
        seen = changed(seen, reports={**seen.reports, Ordinal(0): replace(other, replicas=told)})
        entries = {entry.partition: entry for entry in assignment_of(world)}
        assert next_restart(seen, entries).pod is None
        why = why_data_would_be_lost(seen, seen.cluster.pods[1], entries)
        assert why == "no other replica of partitions 0, 1 is in sync and sound"


def test_a_pod_stays_while_the_pod_of_the_other_copy_says_that_it_ends() -> None:
    """Its node shuts down: nobody marked that pod, and it may not come back."""
    world = running(replicas=2, standbys=1, partitions=2)
    delete_volume(world, 1)
    steps = plan(seen := world.observation())
    while not any(isinstance(step, RestartPod) for step in steps):
        for step in steps:
            world.apply(step)
        steps = plan(seen := world.observation())
    ending = replace(seen.reports[Ordinal(0)], is_leaving=True)
    seen = changed(seen, reports={**seen.reports, Ordinal(0): ending})
    assert not [step for step in plan(seen) if isinstance(step, RestartPod)]
    assert "no other replica of partitions 0, 1 is in sync and sound" in condition(
        world, ConditionType.DEGRADED, seen
    )


def test_a_pod_stays_while_the_volume_of_its_successor_went_back() -> None:
    """The other pod restarts, as the only one in sync, with an older state of its volume."""
    world = running(replicas=2, standbys=1, partitions=2)
    delete_volume(world, 1)
    steps = plan(world.observation())
    while not any(isinstance(step, RestartPod) for step in steps):
        for step in steps:
            world.apply(step)
        steps = plan(world.observation())
    seen = world.observation()
    newer = {"sequence": Sequence(2), "applied_offset": Offset(4), "end_offset": Offset(4)}
    report = seen.reports[Ordinal(1)]
    report = replace(report, replicas=tuple(replace(one, **newer) for one in report.replicas))
    seen = changed(seen, reports={**seen.reports, Ordinal(1): report})
    assert plan(seen) == []
    assert condition(world, ConditionType.PROGRESSING, seen).endswith(
        "word-counts-1 has more than the active of partitions 0, 1, whose volume went back"
    )


def test_a_pod_stays_where_replicas_have_other_rows() -> None:
    world = running(replicas=2, standbys=1, partitions=2)
    delete_volume(world, 1)
    seen = world.observation()
    reports = dict(seen.reports)
    for pod, report in seen.reports.items():
        told = UnlikeRows(
            pods=(Ordinal(0), Ordinal(1)), epoch=Epoch(1), sequence=Sequence(1), offset=Offset(2)
        )
        reports[pod] = replace(
            report, replicas=tuple(replace(one, unlike=told) for one in report.replicas)
        )
    seen = changed(seen, reports=reports)
    assert "ReplacingVolume" not in condition(world, ConditionType.PROGRESSING, seen)
    assert not [step for step in plan(seen) if isinstance(step, RestartPod)]


def test_a_template_waits_until_the_volume_is_new() -> None:
    world = running(replicas=3, standbys=1, partitions=6)
    delete_volume(world, 0)
    world.template = 1
    assert sorted(restarted(world)) == [0, 1, 2]


def test_actives_leave_the_pod_while_another_pod_is_silent() -> None:
    """Nothing moves then; a handover needs no answer of the silent pod."""
    world = running(replicas=3, standbys=2, partitions=3)
    delete_volume(world, 0)
    world.pods[2].is_reachable = False
    world.silent_s = {Ordinal(2): 1.0}
    assert any(entry.active == 0 for entry in assignment_of(world))
    for _ in range(5):
        for step in plan(world.observation()):
            world.apply(step)
    assert all(entry.active != 0 for entry in assignment_of(world))


@hypothesis.given(
    standbys=st.integers(0, 2),
    deleted=st.sets(st.integers(0, 2), min_size=1),
    cuts=st.lists(st.integers(0, 6), min_size=3, max_size=20),
)
@hypothesis.settings(max_examples=30)
def test_a_plan_that_is_cut_anywhere_and_made_again_ends_the_same(
    standbys: int, deleted: set[int], cuts: list[int]
) -> None:
    world = running(replicas=3, standbys=standbys, partitions=5)
    delete_volume(world, *deleted)
    for cut in cuts:
        for step in plan(world.observation())[:cut]:
            world.apply(step)
    assert len(restarted(world, 80)) <= len(deleted)
    left = {pod.ordinal for pod in world.pods if pod.deleted_volume is not None}
    assert left == (deleted if standbys == 0 else set())
    assert all(len(entry.in_sync) == 1 + standbys for entry in assignment_of(world))
