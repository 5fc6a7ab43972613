"""Partitions move to where the spec wants them, one configuration at a time."""

from collections import Counter
from dataclasses import replace as changed
from typing import Any

import hypothesis
import hypothesis.strategies as st
import msgspec
import pytest

from qss_core.model import Epoch, Ordinal, Sequence
from qss_core.spec.resource import RebalanceSpec
from qss_core.wire.losses import DataLoss
from qss_core.wire.replica_reports import CopyReport
from qss_operator.planning.model import (
    ConditionStatus,
    ConditionType,
    Observation,
    PublishAssignment,
    RetireReplica,
    SetReplicas,
    StoreStatus,
)
from qss_operator.planning.plan import plan
from qss_operator.planning.status import status_of
from qss_testing.fakes.control_world import NOW, World, assignment_of, running, spec_of

_ROUNDS = 200


def ask_for(world: World, **spec: Any) -> None:
    world.resource = changed(world.resource, spec=spec_of(**spec))


def found(seen: Observation, kind: ConditionType) -> tuple[ConditionStatus, str, str]:
    condition = status_of(seen, NOW).condition(kind)
    assert condition is not None
    return condition.status, condition.reason, condition.message


def condition(world: World, kind: ConditionType) -> tuple[ConditionStatus, str, str]:
    return found(world.observation(), kind)


def check_placed(world: World) -> None:
    """Balanced over the pods of the spec, everywhere in sync, with no replica left elsewhere."""
    spec, entries = world.resource.spec, assignment_of(world)
    assert all(len(one.replicas) == 1 + spec.effective_standbys for one in entries)
    assert all(set(one.in_sync) == set(one.replicas) for one in entries)
    for pods in (
        [one.active for one in entries],
        [pod for one in entries for pod in one.replicas],
    ):
        loads = Counter(dict.fromkeys(map(Ordinal, range(spec.replicas)), 0)) + Counter(pods)
        assert set(loads) <= set(range(spec.replicas))
        counts = [loads[Ordinal(pod)] for pod in range(spec.replicas)]
        assert max(counts) - min(counts) <= 1
    assert len(world.pods) == spec.replicas
    for pod in world.pods:
        held = {one.partition for one in pod.held}
        assert held == {one.partition for one in entries if pod.ordinal in one.replicas}
    assert world.status().moving == "0/0"


@pytest.mark.parametrize(("before", "after"), [(3, 4), (3, 5), (3, 1), (1, 3), (5, 2)])
@pytest.mark.parametrize("standbys", [0, 1, 2])
def test_a_store_is_scaled_and_every_partition_stays_in_sync_meanwhile(
    before: int, after: int, standbys: int
) -> None:
    world = running(replicas=before, standbys=standbys, partitions=8)
    ask_for(world, replicas=after, standbys=standbys, partitions=8)
    for _ in range(_ROUNDS):
        steps = plan(world.observation())
        if not steps:
            break
        for step in steps:
            world.apply(step)
        for entry in assignment_of(world):
            assert entry.active in entry.in_sync
            assert len(entry.in_sync) >= 1 + min(standbys, before - 1, after - 1)
    check_placed(world)


@hypothesis.given(
    sizes=st.lists(st.tuples(st.integers(1, 5), st.integers(0, 2)), min_size=2, max_size=5),
    cuts=st.lists(st.integers(1, 6), min_size=5, max_size=5),
)
@hypothesis.settings(max_examples=60)
def test_a_plan_that_is_cut_anywhere_and_made_again_ends_the_same(
    sizes: list[tuple[int, int]], cuts: list[int]
) -> None:
    """Another size is asked for in the middle of the moves; half of a round's steps are done."""
    world = running(replicas=sizes[0][0], standbys=sizes[0][1], partitions=7)
    for (replicas, standbys), rounds in zip(sizes[1:], cuts, strict=False):
        ask_for(world, replicas=replicas, standbys=standbys, partitions=7)
        for _ in range(rounds):
            steps = plan(world.observation())
            for step in steps[: (len(steps) + 1) // 2]:
                world.apply(step)
    world.settle(_ROUNDS)
    check_placed(world)


def test_a_partition_stays_where_it_is_until_its_new_replica_is_in_sync() -> None:
    world = running(replicas=1, partitions=4)
    ask_for(world, replicas=2, partitions=4, rebalance=RebalanceSpec(max_warmup_replicas=64))
    world.lagging = {1}
    world.settle()
    entries = assignment_of(world)
    assert [len(one.replicas) for one in entries].count(2) == 2, "learners were made"
    assert all((one.active, one.in_sync) == (0, (0,)) for one in entries)
    assert world.status().moving == "2/2"
    world.lagging = set()
    world.settle(_ROUNDS)
    check_placed(world)


def test_no_active_goes_to_a_replica_that_has_much_to_apply() -> None:
    """It took the log of many batches, and writers would wait until it has applied them."""
    world = running(replicas=2, standbys=1, partitions=1)
    (entry,) = assignment_of(world)
    (other,) = set(entry.replicas) - {entry.active}
    world.resource = changed(world.resource, actives=f"0={other}")
    seen = world.observation()
    report = seen.reports[other]
    (replica,) = report.replicas
    for unapplied, moves in ((65, False), (64, True)):
        late = msgspec.structs.replace(replica, end_offset=replica.applied_offset + unapplied)
        told = msgspec.structs.replace(report, replicas=(late,))
        steps = plan(changed(seen, reports={**seen.reports, other: told}))
        assert any(isinstance(step, PublishAssignment) for step in steps) == moves


def test_no_active_goes_to_a_replica_that_was_not_compared_since_its_pod_started() -> None:
    world = running(replicas=2, standbys=1, partitions=2)
    entry = assignment_of(world)[0]
    (other,) = set(entry.replicas) - {entry.active}
    world.resource = changed(world.resource, actives=f"0={other}")
    world.uncompared = {other}
    assert plan(world.observation()) == []
    world.uncompared = set()
    world.settle(_ROUNDS)
    assert assignment_of(world)[0].active == other


def test_no_more_moves_than_the_new_pods_need() -> None:
    world = running(replicas=3, partitions=12)
    before = {one.partition: one.active for one in assignment_of(world)}
    ask_for(world, replicas=4, partitions=12)
    world.settle(_ROUNDS)
    moves = [one for one in assignment_of(world) if one.active != before[one.partition]]
    assert [one.active for one in moves] == [3, 3, 3]


def test_the_actives_stay_where_fewer_standbys_are_asked_for() -> None:
    """Also those that were handed over meanwhile, as by restarts."""
    world = running(replicas=3, standbys=0, partitions=6)
    ask_for(world, replicas=3, standbys=2, partitions=6)
    world.settle()
    world.template = 1
    world.settle(_ROUNDS)
    kept = [(one.active, one.epoch + 1) for one in assignment_of(world)]
    ask_for(world, replicas=3, standbys=0, partitions=6)
    world.settle()
    assert [(one.active, one.epoch) for one in assignment_of(world)] == kept
    check_placed(world)


def test_a_few_replicas_are_copied_at_the_same_time() -> None:
    world = running(replicas=1, partitions=12)
    rebalance = RebalanceSpec(max_warmup_replicas=3)
    ask_for(world, replicas=2, partitions=12, rebalance=rebalance)
    most = 0
    for _ in range(_ROUNDS):
        for step in plan(world.observation()):
            world.apply(step)
        learners = [set(one.replicas) - set(one.in_sync) for one in assignment_of(world)]
        most = max(most, sum(map(len, learners)))
    assert most == 3
    check_placed(world)


def test_a_move_says_how_much_of_its_database_was_copied() -> None:
    world = running(replicas=1, partitions=2)
    ask_for(world, replicas=2, partitions=2)
    while all(len(entry.replicas) == 1 for entry in assignment_of(world)):
        for step in plan(world.observation()):
            world.apply(step)
    seen = world.observation()
    copied = CopyReport(
        partition=assignment_of(world)[0].partition, done_bytes=479, total_bytes=1000
    )
    report = msgspec.structs.replace(seen.reports[Ordinal(1)], copies=(copied,))
    told = found(
        changed(seen, reports={**seen.reports, Ordinal(1): report}), ConditionType.REBALANCING
    )
    assert told[2] == "partition 0: word-counts-0 to word-counts-1 (40 % copied)"


def test_a_pause_stops_moves_and_says_so() -> None:
    world = running(replicas=3, partitions=6)
    ask_for(world, replicas=2, partitions=6, rebalance=RebalanceSpec(paused=True))
    assert plan(world.observation()) == []
    assert condition(world, ConditionType.REBALANCING)[1] == "Paused"
    status, _, message = condition(world, ConditionType.SCALE_DOWN_BLOCKED)
    assert status is ConditionStatus.TRUE
    assert "word-counts-2 cannot be emptied: spec.rebalance.paused is true" in message
    ask_for(world, replicas=2, partitions=6)
    world.settle(_ROUNDS)
    check_placed(world)


def test_nothing_moves_while_a_pod_that_stays_is_silent() -> None:
    world = running(replicas=3, partitions=6)
    ask_for(world, replicas=2, partitions=6)
    world.pods[1].is_reachable = False
    assert plan(world.observation()) == []
    status, reason, message = condition(world, ConditionType.SCALE_DOWN_BLOCKED)
    assert (status, reason) == (ConditionStatus.TRUE, "WaitingForPods")
    assert "waiting for word-counts-1 to answer" in message


def test_a_silent_pod_that_goes_is_removed_once_all_others_hold_what_is_published() -> None:
    world = running(replicas=3, partitions=6)
    world.settle()
    world.pods[2].held = ()
    silent = {Ordinal(2): 3600.0}
    world.resource = changed(
        world.resource,
        spec=spec_of(replicas=2, partitions=6),
        status=without_pod_2(world.resource.status),
    )
    for entry in assignment_of(world):
        held = world.pods[entry.active]
        held.held = tuple(
            {**{one.partition: one for one in held.held}, entry.partition: entry}.values()
        )
    world.pods[2].is_reachable = False
    observation = changed(world.observation(), silent_s=silent)
    assert SetReplicas(replicas=2) in plan(observation)
    assert SetReplicas(replicas=2) not in plan(world.observation()), "it has just become silent"
    world.pods[1].held = world.pods[1].held[1:]
    observation = changed(world.observation(), silent_s=silent)
    assert SetReplicas(replicas=2) not in plan(observation), "the status may be an older one"


def without_pod_2(status: StoreStatus | None) -> StoreStatus:
    """The status, with the partitions of pod 2 on pod 0 in their next epoch."""
    assert status is not None
    assert status.assignment is not None
    moved = tuple(
        msgspec.structs.replace(
            one,
            epoch=Epoch(one.epoch + 1),
            active=Ordinal(0),
            in_sync=(Ordinal(0),),
            replicas=(Ordinal(0),),
        )
        if one.active == 2
        else one
        for one in status.assignment
    )
    return msgspec.structs.replace(status, assignment=moved)


def test_a_pod_is_removed_when_it_has_no_replica() -> None:
    world = running(replicas=3, partitions=6)
    ask_for(world, replicas=2, partitions=6)
    world.pods[2].held = ()  # As if the status were an older one.
    without = plan(world.observation())
    moved = without_pod_2(world.resource.status)
    world.resource = changed(world.resource, status=moved)
    assert SetReplicas(replicas=2) in plan(world.observation())
    world.pods[2].held = assignment_of(world)[:1]
    assert SetReplicas(replicas=2) not in plan(world.observation())
    assert SetReplicas(replicas=2) not in without, "the status places partitions there"


def test_a_pod_that_ends_because_it_was_removed_is_not_asked_for_again() -> None:
    world = running(replicas=3, partitions=6)
    removed = world.pods[2]
    ask_for(world, replicas=2, partitions=6)
    world.settle(_ROUNDS)
    removed.is_running = False
    world.pods.append(removed)
    assert plan(world.observation()) == []


def test_a_person_chooses_the_pod_of_an_active() -> None:
    world = running(replicas=3, standbys=1, partitions=6)
    chosen = assignment_of(world)[4]
    other = next(pod for pod in range(3) if pod not in chosen.replicas)
    world.resource = changed(world.resource, actives=f"4={other}")
    world.settle(_ROUNDS)
    entry = assignment_of(world)[4]
    assert (entry.active, len(entry.in_sync)) == (other, 2)
    for wrong in ("9=1", "4", "4=1,4=2"):
        world.resource = changed(world.resource, actives=wrong)
        assert condition(world, ConditionType.READY)[1] == "ActivesNotUnderstood"


def test_a_wish_for_a_removed_pod_waits_and_keeps_the_store_ready() -> None:
    world = running(replicas=3, partitions=6)
    world.resource = changed(world.resource, actives="4=2", spec=spec_of(replicas=2, partitions=6))
    world.settle(_ROUNDS)
    assert condition(world, ConditionType.READY)[0] is ConditionStatus.TRUE
    assert (
        "4=2 of queryablestate.dev/actives waits" in condition(world, ConditionType.REBALANCING)[2]
    )


def test_a_replica_is_deleted_only_when_all_that_are_left_know_of_it() -> None:
    world = running(replicas=2, standbys=1, partitions=1)
    ask_for(world, replicas=1, standbys=0, partitions=1)
    while not any(isinstance(step, RetireReplica) for step in plan(world.observation())):
        for step in plan(world.observation()):
            world.apply(step)
    (entry,) = assignment_of(world)
    assert entry.replicas == (0,)
    world.pods[0].state = "opening"
    assert not any(isinstance(step, RetireReplica) for step in plan(world.observation()))
    world.pods[0].state = "serving"
    assert any(isinstance(step, RetireReplica) for step in plan(world.observation()))
    (kept,) = world.pods[0].held
    world.pods[0].held = (msgspec.structs.replace(kept, epoch=Epoch(kept.epoch - 1)),)
    assert not any(isinstance(step, RetireReplica) for step in plan(world.observation()))


def test_a_replica_that_came_back_in_an_older_epoch_is_told_to_leave() -> None:
    """A pod may have a replica that its partition left long ago."""
    world = running(replicas=2, partitions=2)
    (entry,) = [one for one in assignment_of(world) if one.active == 1]
    before = world.pods[1].held
    world.resource = changed(world.resource, actives=f"{entry.partition}=0")
    world.settle(_ROUNDS)
    again = next(one for one in before if one.partition == entry.partition)
    assert again.partition not in {one.partition for one in world.pods[1].held}
    world.pods[1].held += (again,)
    world.settle()
    assert again.partition not in {one.partition for one in world.pods[1].held}


def until_a_replica_has_left() -> tuple[World, Observation]:
    """One partition left pod 1 for pod 0, and its replica on pod 1 is to be deleted next."""
    world = running(replicas=2, standbys=1, partitions=1)
    for pod in world.pods:
        pod.written = {0}
    ask_for(world, replicas=1, partitions=1)
    while not [step for step in plan(world.observation()) if isinstance(step, RetireReplica)]:
        for step in plan(world.observation()):
            world.apply(step)
    return world, world.observation()


@pytest.mark.parametrize("more", [{"sequence": 9}, {"applied_offset": 90}])
def test_a_left_replica_that_has_more_than_its_active_is_kept(more: dict[str, Any]) -> None:
    """The active's volume went back to an older state, and no other replica can tell."""
    _, seen = until_a_replica_has_left()
    left = msgspec.structs.replace(seen.reports[Ordinal(1)].replicas[0], **more)
    report = msgspec.structs.replace(seen.reports[Ordinal(1)], replicas=(left,))
    seen = changed(seen, reports={**seen.reports, Ordinal(1): report})
    assert plan(seen) == []
    status, reason, message = found(seen, ConditionType.DEGRADED)
    assert (status, reason) == (ConditionStatus.TRUE, "LeftReplicaHasMore")
    assert "partition 0 left word-counts-1, whose replica has sequence" in message
    assert found(seen, ConditionType.REBALANCING)[1] == "NothingToMove", "it would last for ever"
    lost = DataLoss(first=Sequence(2), last=Sequence(9), epoch=Epoch(2))
    active = msgspec.structs.replace(seen.reports[Ordinal(0)].replicas[0], losses=(lost,))
    report = msgspec.structs.replace(seen.reports[Ordinal(0)], replicas=(active,))
    seen = changed(seen, reports={**seen.reports, Ordinal(0): report})
    assert [type(step) for step in plan(seen)] == [RetireReplica], "a person accepted that loss"


def test_a_lost_replica_on_a_pod_that_is_emptied_keeps_no_pod() -> None:
    world = running(replicas=3, standbys=1, partitions=6)
    pod = world.pods[2]
    for one in world.pods:
        one.written = set(range(6))
    lost = next(one.partition for one in pod.held if one.active != pod.ordinal)
    pod.lost = {lost: "damaged"}
    ask_for(world, replicas=2, standbys=1, partitions=6)
    world.settle(_ROUNDS)
    assert len(world.pods) == 2


def test_a_pod_that_opens_its_replicas_is_not_removed() -> None:
    """Resource and other volumes went back to before the pod was added: it has the only copies."""
    world = running(replicas=2, partitions=4)
    for pod in world.pods:
        pod.written = set(range(4))
    world.settle()
    older, before = world.resource.status, world.observation().reports
    ask_for(world, replicas=3, partitions=4)
    world.settle(_ROUNDS)
    world.resource = changed(world.resource, spec=spec_of(replicas=2, partitions=4), status=older)
    seen = world.observation()
    opening = msgspec.structs.replace(seen.reports[Ordinal(2)], replicas=(), ready=False)
    seen = changed(seen, reports={**before, Ordinal(2): opening})
    assert not [step for step in plan(seen) if isinstance(step, SetReplicas)]
