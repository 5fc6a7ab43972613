"""Restarts after a change of the pods' template: one pod at a time, and only while others serve."""

from dataclasses import replace as changed

import hypothesis
import hypothesis.strategies as st
import msgspec
import pytest
from msgspec.structs import replace

from qss_core.model import Ordinal
from qss_core.spec.resource import RebalanceSpec
from qss_operator.planning.membership.restarts import next_restart
from qss_operator.planning.model import (
    ConditionStatus,
    ConditionType,
    PublishAssignment,
    RestartPod,
)
from qss_operator.planning.plan import plan
from qss_testing.fakes.control_world import (
    World,
    assignment_of,
    outdated,
    resource_of,
    restarted_next,
    spec_of,
)

_ROUNDS = 200


def progressing(world: World) -> tuple[ConditionStatus, str, str]:
    found = world.status().condition(ConditionType.PROGRESSING)
    assert found is not None
    return found.status, found.reason, found.message


def restarts(world: World) -> list[int]:
    """The pods that restart, in their order, until all have the template."""
    found: list[int] = []
    for _ in range(_ROUNDS):
        found += restarted_next(world)
        if all(pod.template == world.template for pod in world.pods):
            world.settle(_ROUNDS)
            return found
    raise AssertionError("some pods were not restarted")


def test_nothing_is_restarted_where_every_pod_is_current() -> None:
    world = outdated()
    world.template = 0
    assert plan(world.observation()) == []


def test_sole_replicas_are_restarted_by_the_highest_ordinal() -> None:
    world = outdated(replicas=3)
    assert restarted_next(world) == [2]
    assert restarts(world) == [1, 0]
    assert progressing(world)[1] == "UpToDate"


@pytest.mark.parametrize("standbys", [1, 2])
def test_a_pod_has_no_active_and_is_not_in_sync_when_it_restarts(standbys: int) -> None:
    world = outdated(replicas=3, standbys=standbys, partitions=6)
    before = {entry.partition: entry.epoch for entry in assignment_of(world)}
    found: list[int] = []
    for _ in range(_ROUNDS):
        steps = plan(world.observation())
        for step in steps:
            if isinstance(step, RestartPod):
                pod = step.pod.ordinal
                found.append(pod)
                assert all(pod not in entry.in_sync for entry in assignment_of(world))
                assert all(entry.active in entry.in_sync for entry in assignment_of(world))
            world.apply(step)
        assert all(len(entry.in_sync) >= standbys for entry in assignment_of(world))
        if not steps:
            break
    assert sorted(found) == [0, 1, 2]
    for entry in assignment_of(world):
        assert set(entry.in_sync) == set(entry.replicas)
        assert len(entry.replicas) == 1 + standbys
        # Each pod leaves and comes back, an active is handed over at most three times.
        assert entry.epoch <= before[entry.partition] + 2 * (1 + standbys) + 3
    actives = [entry.active for entry in assignment_of(world)]
    assert {actives.count(Ordinal(pod)) for pod in range(3)} == {2}


def test_a_pod_says_what_it_leaves_before_it_restarts() -> None:
    world = outdated(replicas=2, standbys=1, partitions=2)
    status, reason, message = progressing(world)
    assert (status, reason) == (ConditionStatus.TRUE, "RollingUpdate")
    assert message.startswith("0 of 2 pods have the new template; word-counts-1 leaves the in-sync")
    while not any(isinstance(step, RestartPod) for step in plan(world.observation())):
        restarted_next(world)
    assert progressing(world)[2] == "0 of 2 pods have the new template; restarting word-counts-1"


def test_the_next_one_waits_until_the_last_one_serves() -> None:
    world = outdated(replicas=3)
    assert restarted_next(world) == [2]
    world.pods[2].is_opening = True
    world.pods[2].state = "opening"
    assert restarted_next(world) == []
    assert "rule EveryOtherPodServes: waiting for word-counts-2" in progressing(world)[2] or (
        progressing(world)[1] == "PartitionsOpening"
    )
    world.pods[2].is_opening = False
    world.pods[2].state = "serving"
    assert restarted_next(world) == [1]


def test_a_pod_that_is_stopping_is_waited_for() -> None:
    world = outdated(replicas=2)
    seen = world.observation()
    leaving = changed(seen.cluster.pods[1], is_leaving=True)
    cluster = changed(seen.cluster, pods=(seen.cluster.pods[0], leaving))
    assert plan(changed(seen, cluster=cluster)) == []


def test_a_pod_whose_partition_has_no_other_replica_in_sync_is_waited_for() -> None:
    world = outdated(replicas=2, standbys=1, partitions=2)
    world.template = 0
    world.lagging = {1}
    status = world.resource.status
    assert status is not None
    world.pods[1].lost = {0: "damaged"}
    for _ in range(10):
        restarted_next(world)
    world.pods[1].lost = {}
    world.settle(_ROUNDS)
    assert next(iter(assignment_of(world))).in_sync == (0,)
    world.template = 1
    for _ in range(10):
        assert restarted_next(world) in ([], [1])
    assert world.pods[0].template == 0
    rule = "rule RestartedPodsInSync: waiting until word-counts-1 is in sync again with partitions"
    assert f"{rule} 0, 1" in progressing(world)[2]
    world.lagging = set()
    restarts(world)


def test_actives_go_only_where_they_can_act_at_once() -> None:
    """A process that has just started keeps the promises of the one before it."""
    world = outdated(replicas=2, standbys=1, partitions=2)
    world.promised = {0}
    before = assignment_of(world)
    for _ in range(5):
        assert restarted_next(world) == []
    assert assignment_of(world) == before
    assert "entries left to apply" not in progressing(world)[2]
    world.promised = set()
    assert restarts(world) == [1, 0]


def test_a_handover_says_how_far_behind_the_standbys_are() -> None:
    world = outdated(replicas=2, standbys=1, partitions=2)
    seen = world.observation()
    late = {}
    for pod, report in seen.reports.items():
        replicas = [replace(one, end_offset=one.applied_offset + 500) for one in report.replicas]
        late[pod] = replace(report, replicas=tuple(replicas))
    entries = {entry.partition: entry for entry in assignment_of(world)}
    finding = next_restart(changed(seen, reports=late), entries).finding
    assert finding is not None
    assert "they have up to 500 entries left to apply" in finding[2]


def test_a_standby_stays_while_its_active_was_not_compared() -> None:
    """Both have ended, and the active's volume may have gone back: the standby has the data."""
    world = outdated(replicas=2, standbys=1, partitions=1)
    (entry,) = assignment_of(world)
    world.uncompared = {entry.active}
    for _ in range(5):
        restarted_next(world)
        assert len(assignment_of(world)[0].in_sync) == 2
    world.uncompared = set()
    assert sorted(restarts(world)) == [0, 1]


def last_copy(world: World) -> tuple[int, int]:
    """Restarts one of two pods; returns it, and the pod that has the only in-sync copies."""
    while not (restarted := restarted_next(world)):
        pass
    (new,) = restarted
    assert all(entry.in_sync == (1 - new,) for entry in assignment_of(world))
    return new, 1 - new


def test_a_late_report_restarts_no_pod() -> None:
    world = outdated(replicas=2, standbys=1, partitions=2)
    new, other = last_copy(world)
    world.pods[new].is_opening = True
    world.pods[other].is_reachable = False
    assert restarted_next(world) == []


def test_a_template_that_no_pod_can_start_with_does_not_take_the_last_copy() -> None:
    world = outdated(replicas=2, standbys=1, partitions=2)
    new, other = last_copy(world)
    world.pods[new].is_running = False
    world.pods[other].state = "opening"  # Its container has ended once.
    assert restarted_next(world) == []
    world.pods[other].is_running = False
    assert restarted_next(world) == []


def test_a_pod_with_one_replica_that_serves_is_not_broken() -> None:
    world = outdated(replicas=3, standbys=1, partitions=6)
    seen = world.observation()
    report = msgspec.structs.replace(seen.reports[Ordinal(1)], ready=False)
    seen = changed(seen, reports={**seen.reports, Ordinal(1): report})
    assert not [step for step in plan(seen) if isinstance(step, RestartPod)]


def test_ready_pods_that_the_operator_does_not_reach_are_restarted() -> None:
    """The certificates have ended, and their Secret has another name now: a restart mends it."""
    world = outdated(replicas=3, standbys=1, partitions=3)
    seen = world.observation()
    ready = tuple(changed(pod, is_ready=True) for pod in seen.cluster.pods)
    cluster = changed(seen.cluster, pods=ready)
    silent = {pod.ordinal: 29.0 for pod in ready}
    seen = changed(seen, reports={}, silent_s=silent, cluster=cluster)
    assert not [step for step in plan(seen) if isinstance(step, RestartPod)]
    seen = changed(seen, silent_s=dict.fromkeys(silent, 30.0))
    assert [step.pod.ordinal for step in plan(seen) if isinstance(step, RestartPod)] == [2]


def silent_step(world: World, *silent: int) -> list[int]:
    """The pods restarted next, where Ready ones have not answered the operator for a minute."""
    seen = world.observation()
    ready = tuple(changed(pod, is_ready=True) for pod in seen.cluster.pods)
    reports = {pod: report for pod, report in seen.reports.items() if pod not in silent}
    steps = plan(
        changed(
            seen,
            reports=reports,
            silent_s={Ordinal(pod): 60.0 for pod in silent},
            cluster=changed(seen.cluster, pods=ready),
        )
    )
    found = [step for step in steps if isinstance(step, RestartPod)]
    for step in found:
        world.apply(step)
    return [step.pod.ordinal for step in found]


def test_an_operator_that_reaches_no_pod_restarts_one_and_no_more() -> None:
    """A restarted active waits for an epoch, which this operator could not give."""
    world = outdated(replicas=3, standbys=1, partitions=3)
    assert [silent_step(world, 0, 1, 2) for _ in range(6)] == [[2], [], [], [], [], []]


def test_a_silent_pod_with_an_only_copy_does_not_hold_up_the_others_for_ever() -> None:
    """Nothing moves while it is silent, so no other pod could hand over its actives."""
    world = outdated(replicas=3, standbys=1, partitions=3)
    with_entries(world, (0, (0,), (0, 1)), (1, (1, 2), (1, 2)), (2, (2, 1), (1, 2)))
    assert silent_step(world, 0) == [0]


def with_entries(world: World, *entries: tuple[int, tuple[int, ...], tuple[int, ...]]) -> None:
    """Gives the partitions another active, in-sync set and replicas."""
    status = world.resource.status
    assert status is not None
    new = tuple(
        msgspec.structs.replace(
            old, epoch=old.epoch + 10, active=active, in_sync=in_sync, replicas=replicas
        )
        for old, (active, in_sync, replicas) in zip(assignment_of(world), entries, strict=True)
    )
    world.resource = changed(world.resource, status=msgspec.structs.replace(status, assignment=new))
    for pod in world.pods:
        pod.held = tuple(entry for entry in new if pod.ordinal in entry.replicas)


def test_a_pod_that_waits_for_another_replica_may_become_one_elsewhere() -> None:
    world = outdated(replicas=2, standbys=1, partitions=2)
    with_entries(world, (1, (1,), (0, 1)), (0, (0,), (0, 1)))
    world.lagging = {0}
    restarted_next(world)
    assert set(assignment_of(world)[1].in_sync) == {0, 1}


def test_a_pod_that_can_leave_goes_before_one_that_waits_for_another_replica() -> None:
    world = outdated(replicas=3, standbys=1, partitions=3)
    with_entries(world, (2, (2,), (1, 2)), (1, (1, 0), (0, 1)), (0, (0, 1), (1, 0)))
    world.lagging = {1}
    found: list[int] = []
    for _ in range(_ROUNDS):
        found += restarted_next(world)
    assert found, "pod 0 or 1 restarts, and pod 1 can then be mended"


@pytest.mark.parametrize("replicas", [0, 2])
def test_a_pod_that_is_removed_is_not_restarted(replicas: int) -> None:
    world = outdated(replicas=3, standbys=0, partitions=2)
    world.resource = changed(world.resource, spec=spec_of(replicas=replicas, partitions=2))
    found: list[int] = []
    for _ in range(_ROUNDS):
        found += restarted_next(world)
    assert sorted(found) == list(range(replicas))


def test_actives_move_once_for_each_restart_while_restarted_pods_open() -> None:
    world = outdated(replicas=3, standbys=1, partitions=6)
    handovers = 0
    opens_at: dict[int, int] = {}
    for number in range(_ROUNDS):
        for pod in world.pods:
            pod.state = "opening" if number < opens_at.get(pod.ordinal, 0) else "serving"
        before = [entry.active for entry in assignment_of(world)]
        for ordinal in restarted_next(world):
            opens_at[ordinal] = number + 10
        after = [entry.active for entry in assignment_of(world)]
        handovers += sum(old != new for old, new in zip(before, after, strict=True))
    assert all(pod.template == 1 for pod in world.pods)
    assert handovers <= 10


def test_while_the_assignment_is_not_known_only_a_broken_pod_is_restarted() -> None:
    world = outdated(replicas=3, standbys=1, partitions=3)
    world.resource = changed(world.resource, status=None)
    world.pods[0].is_reachable = False
    world.are_volumes_opaque = True
    assert restarted_next(world) == []
    world.pods[1].is_running = False
    assert restarted_next(world) == [1]


def test_a_broken_old_pod_goes_first_also_while_others_do_not_serve() -> None:
    world = outdated(replicas=3)
    world.pods[2].template = 1
    for number in (1, 2):
        world.pods[number].is_running = False
    assert restarted_next(world) == [1]


def test_a_pod_is_restarted_before_the_assignment_is_known() -> None:
    """The first template may be wrong, so that no pod ever answers."""
    world = World(resource=resource_of(spec_of(replicas=2)))
    world.scale(2)
    world.template = 1
    for pod in world.pods:
        pod.is_running = False
    assert [*restarted_next(world), *restarted_next(world)] == [1]


def test_a_pause_keeps_pods_as_they_are_and_says_so() -> None:
    world = outdated(replicas=2, standbys=1, rebalance=RebalanceSpec(paused=True))
    assert plan(world.observation()) == []
    assert progressing(world) == (
        ConditionStatus.FALSE,
        "Paused",
        "0 of 2 pods have the new template; rebalance.paused keeps the others from being restarted",
    )


@hypothesis.given(
    standbys=st.integers(0, 2), cuts=st.lists(st.integers(0, 9), min_size=3, max_size=30)
)
@hypothesis.settings(max_examples=60)
def test_restarts_that_are_cut_anywhere_and_planned_again_end_the_same(
    standbys: int, cuts: list[int]
) -> None:
    """Some steps of a round are done; the template changes again, or back, in the middle."""
    world = outdated(replicas=3, standbys=standbys, partitions=5)
    for cut in cuts:
        steps = plan(world.observation())
        for step in steps[:cut]:
            world.apply(step)
        if cut == 9:
            world.template = (world.template + 1) % 3
    world.settle(_ROUNDS)
    assert all(pod.template == world.template for pod in world.pods)
    entries = assignment_of(world)
    assert all(set(entry.in_sync) == set(entry.replicas) for entry in entries)
    assert not [step for step in plan(world.observation()) if isinstance(step, PublishAssignment)]


@pytest.mark.parametrize("state", ["serving", "opening"])
def test_a_pod_whose_standbys_wait_for_their_comparison_is_not_restarted_once_more(
    state: str,
) -> None:
    """It has just started: its active compares the logs within a heartbeat."""
    world = outdated(replicas=3, standbys=2, partitions=2)
    seen = world.observation()
    idle = next(pod for pod in range(3) if all(e.active != pod for e in assignment_of(world)))
    report = seen.reports[Ordinal(idle)]
    replicas = tuple(replace(one, state=state) for one in report.replicas)
    report = replace(report, ready=False, replicas=replicas)
    steps = plan(changed(seen, reports={**seen.reports, Ordinal(idle): report}))
    assert not [one for one in steps if isinstance(one, RestartPod)]
