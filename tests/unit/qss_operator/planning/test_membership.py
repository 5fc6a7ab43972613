"""The next configuration: after failover, removal, new epochs, learners and new replicas."""

from dataclasses import replace as changed
from typing import Any

import pytest
from msgspec.structs import replace

from qss_core.model import (
    Epoch,
    Offset,
    Ordinal,
    PartitionConfiguration,
    PartitionId,
    PodName,
    Role,
    Sequence,
    StoreId,
)
from qss_core.wire.losses import LostReplica
from qss_core.wire.replica_reports import FullVolume, ReplicaReport, ReplicasReport
from qss_operator.planning.membership.epochs import next_configurations
from qss_operator.planning.model import ClusterState, Observation, PodState
from qss_testing.fakes.control_world import UID, resource_of, spec_of
from qss_testing.fakes.simulated_pod import STORE, SimulatedPod

P0 = PartitionId(0)
A, B, C = Ordinal(0), Ordinal(1), Ordinal(2)
LED_BY_A = PartitionConfiguration(
    partition=P0, epoch=Epoch(4), active=A, in_sync=(A, B), replicas=(A, B)
)
OLDER = replace(LED_BY_A, epoch=Epoch(3))
LEARNS = replace(LED_BY_A, in_sync=(A,))


def report(
    pod: Ordinal, held: PartitionConfiguration = LED_BY_A, end: int = 10, **members: Any
) -> ReplicasReport:
    """A pod with one replica; `members` are those of the replica's report."""
    replica = ReplicaReport(
        configuration=held,
        role=held.role_of(pod) or Role.LEARNER,
        applied_offset=Offset(end),
        end_offset=Offset(end),
        sequence=Sequence(3),
        **{"state": "serving", "is_compared": True, **members},
    )
    return ReplicasReport(
        store=STORE,
        store_id=StoreId(UID),
        pod=PodName(f"{STORE}-{pod}"),
        ordinal=pod,
        incarnation="1",
        version=1,
        ready=True,
        replicas=(replica,),
    )


def without_data(pod: Ordinal) -> ReplicasReport:
    lost = LostReplica(partition=P0, error="damaged")
    return replace(report(pod), replicas=(), lost=(lost,))


def following(
    *reports: ReplicasReport,
    held: PartitionConfiguration = LED_BY_A,
    silent_s: dict[Ordinal, float] | None = None,
    standbys: int = 1,
    pods: int = 2,
    is_creating: bool = False,
    is_unclear: bool = False,
    accepted: str | None = None,
    outdated: Ordinal | None = None,
) -> PartitionConfiguration:
    """The configuration after `held` with these reports."""
    cluster = ClusterState(
        replicas=pods,
        pods=tuple(
            changed(pod_state(Ordinal(number)), is_outdated=number == outdated)
            for number in range(pods)
        ),
    )
    observation = Observation(
        resource=changed(
            resource_of(spec_of(partitions=1, replicas=pods, standbys=standbys)),
            accept_data_loss=accepted,
        ),
        cluster=cluster,
        reports={one.ordinal: one for one in reports},
        silent_s=silent_s or {},
    )
    (found,) = next_configurations(
        observation,
        {P0: held},
        is_creating=is_creating,
        unclear=[P0] if is_unclear else [],
    )
    return found


def pod_state(ordinal: Ordinal) -> PodState:
    address = SimulatedPod(ordinal=ordinal).address
    return PodState(address=address, is_running=True, has_data=True)


def led_by(active: Ordinal, *in_sync: Ordinal, epoch: int = 5) -> PartitionConfiguration:
    return replace(LED_BY_A, epoch=Epoch(epoch), active=active, in_sync=(active, *in_sync))


def test_nothing_changes_while_all_replicas_follow() -> None:
    assert following(report(A), report(B)) == LED_BY_A


def test_a_standby_that_misses_its_active_takes_over() -> None:
    assert following(report(B, misses_active=True)) == led_by(B)


def test_no_standby_takes_over_from_an_active_that_answers() -> None:
    assert following(report(A), report(B, misses_active=True)) == LED_BY_A


@pytest.mark.parametrize(("silent_s", "active"), [(9.9, A), (10.0, B)])
def test_a_silent_active_is_waited_for_as_long_as_failover_after_says(
    silent_s: float, active: Ordinal
) -> None:
    assert following(report(B), silent_s={A: silent_s}).active == active


def test_a_standby_that_was_not_compared_since_its_start_takes_over_later() -> None:
    """The active, when it comes back, can tell whether that volume went back."""
    started = report(B, is_compared=False)
    assert following(started, silent_s={A: 29.9}) == LED_BY_A
    assert following(started, silent_s={A: 30.0}) == led_by(B)
    assert following(without_data(A), started) == led_by(B), "the active says that it has nothing"


@pytest.mark.parametrize(
    "members",
    [
        {"is_damaged": True, "state": "failed"},
        {"is_stopped": True, "state": "failed"},
        {"has_damage": True},
        {"state": "behind", "completed": 9},
    ],
)
def test_an_active_that_says_that_it_cannot_act_is_replaced_at_once(
    members: dict[str, Any],
) -> None:
    assert following(report(A, **members), report(B)) == led_by(B)


def test_the_standby_with_the_longest_log_takes_over() -> None:
    held = replace(LED_BY_A, in_sync=(A, B, C), replicas=(A, B, C))
    reports = [report(B, held, end=10), report(C, held, end=12)]
    found = following(*reports, held=held, silent_s={A: 60.0}, pods=3, standbys=2)
    assert (found.active, found.in_sync) == (C, (B, C))


def test_only_a_standby_that_holds_this_configuration_takes_over() -> None:
    older = report(B, replace(LED_BY_A, epoch=Epoch(3)))
    assert following(older, silent_s={A: 60.0}) == LED_BY_A
    failed = report(B, state="failed")
    assert following(failed, silent_s={A: 60.0}) == LED_BY_A


def test_a_standby_that_its_active_reports_as_silent_leaves_the_in_sync_set() -> None:
    assert following(report(A, silent=(B,))) == led_by(A)
    behind = report(A, silent=(B,), state="behind", completed=9)
    assert following(behind) == LED_BY_A, "B may be the only replica with all that was acknowledged"


def test_a_learner_with_rows_takes_over_from_an_emptied_volume_whose_loss_is_accepted() -> None:
    """It has all but the last batches, and the emptied volume has none."""
    learners = replace(LEARNS, replicas=(A, B, C))
    emptied, shorter = replace(report(A), store_id=None, replicas=()), report(C, learners, end=8)

    def after(*reports: ReplicasReport, accepted: str = "0@4") -> PartitionConfiguration:
        return following(*reports, shorter, held=learners, pods=3, accepted=accepted)

    assert after(emptied, report(B, learners)) == replace(led_by(B), replicas=(A, B, C))
    damaged = report(B, learners, has_damage=True)
    assert after(emptied, damaged) == replace(learners, epoch=Epoch(5), active=C, in_sync=(C,))
    assert after(emptied, report(B, learners), accepted="0@3") == learners
    assert after(report(A, learners), report(B, learners)) == learners


def test_a_standby_that_nobody_reaches_leaves_the_in_sync_set_after_a_lease() -> None:
    waiting = report(A, lacks_lease=True)
    assert following(waiting, silent_s={B: 5.0}) == led_by(A)
    assert following(waiting, silent_s={B: 4.9}) == LED_BY_A
    assert following(report(A), silent_s={B: 60.0}) == LED_BY_A, "the active reaches it"
    assert following(waiting, report(B)) == LED_BY_A, "it is slow, and answers the operator"
    uncompared = report(A, lacks_lease=True, is_compared=False)
    assert following(uncompared, silent_s={B: 60.0}) == LED_BY_A
    damaged = report(A, lacks_lease=True, has_damage=True)
    assert following(damaged, silent_s={B: 60.0}) == LED_BY_A


def test_a_standby_without_data_leaves_the_in_sync_set_at_once() -> None:
    assert following(report(A, is_compared=False), without_data(B)) == led_by(A)
    emptied = replace(report(B), store_id=None, replicas=())
    assert following(report(A), emptied) == led_by(A)
    swapped = LostReplica(partition=P0, error="swapped", is_misplaced=True)
    whole = replace(report(B), replicas=(), lost=(swapped,))
    assert following(report(A, state="behind", completed=9), whole) == LED_BY_A


def test_an_active_with_a_full_disk_stays_the_active() -> None:
    assert following(report(A, state="failed"), report(B)) == LED_BY_A


def test_a_stopped_active_is_not_replaced_by_a_standby_whose_volume_went_back() -> None:
    stopped = report(A, end=100, is_stopped=True, state="failed")
    assert following(stopped, report(B, end=5, is_compared=False)) == LED_BY_A
    assert following(stopped, report(B, end=100, is_compared=False)) == led_by(B)


def test_an_active_with_a_damaged_block_goes_on_until_a_standby_is_compared() -> None:
    damaged = report(A, has_damage=True)
    assert following(damaged, report(B, end=5, is_compared=False)) == LED_BY_A
    assert following(damaged, report(B, end=9)) == led_by(B)


@pytest.mark.parametrize(
    "members",
    [
        {"is_damaged": True, "is_stopped": True, "state": "failed"},
        {"state": "behind", "completed": 9},
    ],
)
def test_an_active_with_a_damaged_block_that_cannot_act_does_not_wait_for_a_comparison(
    members: dict[str, Any],
) -> None:
    """It sends no entries, so nothing would ever compare the standby with it."""
    stopped = report(A, has_damage=True, **members)
    assert following(stopped, report(B, is_compared=False)) == led_by(B)


def test_a_replica_with_a_damaged_block_leads_where_no_other_one_can() -> None:
    damaged = report(B, has_damage=True)
    assert following(damaged, silent_s={A: 60.0}) == led_by(B)
    held = replace(LED_BY_A, in_sync=(A, B, C), replicas=(A, B, C))
    reports = [report(B, held, end=12, has_damage=True), report(C, held, end=10)]
    found = following(*reports, held=held, silent_s={A: 60.0}, pods=3, standbys=2)
    assert found.active == C


def test_a_copy_of_a_damaged_active_joins_and_changes_nothing() -> None:
    held = replace(LED_BY_A, in_sync=(A,))
    active = report(A, held, has_damage=True, caught_up=(B,))
    joined = following(active, report(B, held, has_damage=True), held=held)
    assert joined.in_sync == (A, B)
    reports = [report(pod, joined, has_damage=True) for pod in (A, B)]
    assert following(*reports, held=joined) == joined
    sound = report(A, held, caught_up=(B,))
    assert following(sound, report(B, held, has_damage=True), held=held) == held, "it is copied"


def test_a_standby_leaves_for_a_restart_also_beside_a_damaged_active() -> None:
    damaged = [report(pod, has_damage=True) for pod in (A, B)]
    assert following(*damaged, outdated=B) == led_by(A)


def test_where_every_replica_has_a_damaged_block_nothing_changes() -> None:
    """Each goes on with the rows that can be read."""
    damaged = [report(pod, has_damage=True) for pod in (A, B)]
    assert following(*damaged) == LED_BY_A
    assert following(report(A), damaged[1]) == led_by(A), "B is copied anew"


def test_an_active_that_cannot_open_its_replica_is_replaced_on_the_plea_of_a_standby() -> None:
    waits = LostReplica(partition=P0, error="too many open files", is_waiting=True)
    opening = replace(report(A), replicas=(), lost=(waits,))
    assert following(opening, report(B)) == LED_BY_A, "it may open in a moment"
    assert following(opening, report(B, misses_active=True)) == led_by(B)


def without_room(held: PartitionConfiguration, end: int = 10) -> ReplicasReport:
    """The report of A, which has started again as the active on a full volume."""
    full = FullVolume(free_bytes=8 << 20, kept_back_bytes=64 << 20, size_bytes=160 << 20)
    return replace(report(A, held, end, asks_for_epoch=True), full_volume=full)


def test_an_active_without_room_to_take_its_epoch_is_replaced_on_the_plea_of_a_standby() -> None:
    pleads = report(B, misses_active=True, is_compared=False)
    assert following(without_room(OLDER), pleads) == led_by(B)
    assert following(without_room(OLDER), report(B)) == LED_BY_A, "it may take it in a moment"
    assert following(report(A, OLDER, asks_for_epoch=True), pleads) == LED_BY_A, "it has room"
    assert following(without_room(LED_BY_A), pleads) == led_by(A, B), "it has taken its epoch"


def test_a_standby_with_less_than_the_log_of_an_active_without_room_does_not_take_over() -> None:
    """Its volume may be an older one, and the active has the entries that it lacks."""
    stuck = without_room(OLDER, end=11)
    assert following(stuck, report(B, end=10, misses_active=True)) == LED_BY_A
    assert following(stuck, report(B, end=11, misses_active=True)) == led_by(B)


@pytest.mark.parametrize(
    "trouble",
    [
        {"is_damaged": True, "state": "failed"},
        {"is_stopped": True, "state": "failed"},
        {"has_damage": True},
        {"state": "behind", "completed": 9},
    ],
)
def test_an_active_without_room_that_cannot_act_is_replaced_as_one_with_room(
    trouble: dict[str, Any],
) -> None:
    """Its log may end with an entry that nobody acknowledged: it will never send it."""
    seen = without_room(OLDER, end=11)
    (replica,) = seen.replicas
    seen = replace(seen, replicas=(replace(replica, **trouble),))
    assert following(replace(seen, full_volume=None), report(B)) == led_by(B)
    assert following(seen, report(B)) == led_by(B)


def test_a_standby_that_has_stopped_leaves_the_in_sync_set_beside_a_compared_active() -> None:
    stopped = report(B, is_stopped=True, state="failed")
    assert following(report(A), stopped) == led_by(A)
    assert following(report(A, is_compared=False), stopped) == LED_BY_A, "B may hold more than A"
    failed = report(A, is_stopped=True, state="failed")
    assert following(failed, stopped) == LED_BY_A, "no replica could take over"


def test_an_active_that_started_again_gets_a_new_epoch() -> None:
    asks = report(A, asks_for_epoch=True)
    assert following(asks, report(B)) == led_by(A, B)
    assert following(report(A, replace(LED_BY_A, epoch=Epoch(3)), asks_for_epoch=True)) == LED_BY_A


def test_while_the_store_is_made_nothing_changes_before_every_replica_exists() -> None:
    """The first entry of a new epoch ends the creation: an empty volume counts as lost then."""
    asks = report(A, asks_for_epoch=True)
    assert following(asks, is_creating=True) == LED_BY_A
    assert following(asks, report(B), is_creating=True) == led_by(A, B)


def test_a_learner_that_has_caught_up_joins_the_in_sync_set() -> None:
    found = following(report(A, LEARNS, caught_up=(B,)), report(B, LEARNS), held=LEARNS)
    assert found == led_by(A, B)
    behind = report(A, LEARNS, caught_up=(B,), state="behind", completed=9)
    assert following(behind, held=LEARNS) == LEARNS


def test_a_learner_whose_pod_ends_stops_counting_at_once() -> None:
    """It has counted since the active asked for it, and writers wait for what counts."""
    active = report(A, LEARNS, caught_up=(B,))
    ending = replace(report(B, LEARNS), is_leaving=True)
    assert following(active, ending, held=LEARNS) == replace(LEARNS, epoch=Epoch(5))


def test_a_partition_with_fewer_replicas_than_the_spec_asks_for_gets_learners() -> None:
    sole = replace(LED_BY_A, in_sync=(A,), replicas=(A,))
    empty = replace(report(B), replicas=())
    found = following(report(A, sole), empty, held=sole)
    assert found == replace(sole, epoch=Epoch(5), replicas=(B, A))
    assert following(report(A, sole), empty, held=sole, standbys=0) == sole
    assert following(report(A, sole), held=sole) == sole, "B does not answer"
    behind = report(A, sole, state="behind", completed=9)
    assert following(behind, empty, held=sole) == sole, "an old state is brought to no other pod"


def test_a_learner_is_taken_in_only_where_its_own_pod_has_it() -> None:
    active = report(A, LEARNS, caught_up=(B,))
    assert following(active, held=LEARNS) == LEARNS
    assert following(active, without_data(B), held=LEARNS) == LEARNS


def test_a_disputed_partition_stays_as_it_is() -> None:
    assert following(report(A, silent=(B,)), is_unclear=True) == LED_BY_A


def test_where_all_data_is_lost_only_the_loss_is_left_to_accept() -> None:
    assert following(without_data(A), without_data(B)) == led_by(A)
    assert following(without_data(A)) == LED_BY_A, "B may come back with the data"
    assert following(without_data(A), accepted="0@4") == led_by(A)
    assert following(without_data(A), accepted="0@3") == LED_BY_A


def test_a_standby_that_does_not_come_back_is_given_up_beside_an_older_active_when_accepted() -> (
    None
):
    behind = report(A, state="behind", completed=9)
    assert following(behind, silent_s={B: 999.0}) == LED_BY_A
    assert following(behind, silent_s={B: 999.0}, accepted="0@4") == led_by(A)
    assert following(behind, report(B), accepted="0@4") == led_by(B), "it has all"
    stopped = report(B, is_stopped=True, state="failed")
    assert following(behind, stopped, accepted="0@4") == led_by(A), "it cannot lead"
    assert following(behind, without_data(B), accepted="0@4") == led_by(A)
    assert following(behind, report(B, end=9), accepted="0@4") == led_by(A), "it is older still"
    opening = report(B, replace(LED_BY_A, epoch=Epoch(3)))
    assert following(behind, opening, accepted="0@4") == LED_BY_A, "it may lead in a moment"


def test_a_change_takes_one_epoch_however_much_is_asked_for() -> None:
    both = report(A, asks_for_epoch=True, silent=(B,))
    assert following(both).epoch == LED_BY_A.epoch + 1
