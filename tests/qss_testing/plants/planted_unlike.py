"""Rules of unlike, left and unopened replicas to take out, each with a test that then fails.

`python -m qss_testing.plants.planted_unlike` takes each of them out, as `make planted` does. They
are rules of the operator's planner, of what it sends pods, and of a pod that takes an assignment.
"""

from qss_testing.plants.planted import Plant, run

_PLANNING = "operator/qss_operator/planning"
_MEMBERSHIP = f"{_PLANNING}/membership"
_UNLIKE = "tests/unit/qss_operator/test_unlike_replicas.py"
_CLAIMS = "tests/unit/qss_operator/planning/test_disk_claims.py"
_UNOPENED = "tests/unit/qss_operator/planning/test_unopened_replicas.py"
_SENDING = "tests/unit/qss_operator/test_reconcile_sending.py"
_LEFT = "tests/unit/qss_operator/planning/test_left_replicas.py"

UNLIKE_PLANTS = (
    Plant.of(
        "open replicas wait for the databases of the assignment before",
        "store-pod/qss_store/replicas/pod.py",
        "        if is_busy and self.registry.take_epochs(",
        "        if False and self.registry.take_epochs(",
        "tests/integration/replicas/test_new_replicas.py"
        "::test_open_replicas_take_a_newer_epoch_while_a_database_is_made",
    ),
    Plant.of(
        "a pod that makes databases is sent no newer assignment",
        "operator/qss_operator/reconcile/assignment_sender.py",
        "            if self._is_newest(step):\n                continue\n",
        "            if under_way:\n                continue\n",
        _SENDING,
    ),
    Plant.of(
        "a pod that makes databases is sent assignments without end",
        "operator/qss_operator/reconcile/assignment_sender.py",
        "            if len(under_way) == _SENDS_MAX:\n",
        "            if len(under_way) == 1000:\n",
        _SENDING,
    ),
    Plant.of(
        "the assignment on which a pod works is given up for a newer one",
        "operator/qss_operator/reconcile/assignment_sender.py",
        "                overtaken = [*under_way][1]",
        "                overtaken = [*under_way][0]",
        _SENDING,
    ),
    Plant.of(
        "a round waits for a pod that was busy before",
        "operator/qss_operator/reconcile/assignment_sender.py",
        "            begun += [] if under_way else [work]\n",
        "            begun += [work]\n",
        f"{_SENDING}::test_a_newer_assignment_to_a_busy_pod_holds_up_no_round",
    ),
    Plant.of(
        "the refusal of an assignment that was overtaken is a failure",
        "operator/qss_operator/reconcile/assignment_sender.py",
        "                if self._is_newest(step):\n                    raise\n",
        "                raise\n",
        _SENDING,
    ),
    Plant.of(
        "a partition of unlike replicas keeps any of them when its standbys go",
        f"{_MEMBERSHIP}/unlike_replicas.py",
        "        and active.unlike is not None\n    }\n",
        "        and active.unlike is active\n    }\n",
        f"{_UNLIKE}::test_a_store_without_standbys_for_a_while_keeps_the_rows_of_all_its_actives",
    ),
    Plant.of(
        "standbys with other rows are moved and deleted",
        f"{_MEMBERSHIP}/unlike_replicas.py",
        "    return unlike_entries(observation, entries) if has_standbys else {}\n",
        "    return {}\n",
        f"{_UNLIKE}::test_a_store_that_grows_deletes_no_replica_that_may_have_the_right_rows",
    ),
    Plant.of(
        "a left replica with other rows is deleted",
        f"{_MEMBERSHIP}/unlike_replicas.py",
        "    return active.unlike is not None and pod in",
        "    return active.unlike is active and pod in",
        f"{_UNLIKE}::test_a_left_replica_that_was_compared_is_kept_until_a_person_gives_up_the_"
        "standbys[1]",
    ),
    Plant.of(
        "a standby comes back before its old replica is deleted",
        f"{_MEMBERSHIP}/moves.py",
        "        if any(_is_left(observation.reports, pod, number) for pod in added):\n",
        "        if False:\n",
        f"{_UNLIKE}::test_a_standby_that_is_not_deleted_yet_does_not_come_back_with_its_rows",
    ),
    Plant.of(
        "a partition that waits for room is made anew",
        f"{_PLANNING}/assignment_state.py",
        "        or _unopened(observation, published)\n",
        "",
        f"{_UNOPENED}::test_a_partition_that_waits_for_room_is_not_said_to_be_gone_and_not_made_"
        "anew",
    ),
    Plant.of(
        "the configuration of a partition that cannot be opened is not used",
        f"{_PLANNING}/disk_claims.py",
        "        if lost.configuration is not None:\n",
        "        if False:\n",
        f"{_CLAIMS}::test_a_lost_replica_whose_configuration_differs_in_one_epoch_makes_a_dispute",
    ),
    Plant.of(
        "a learner that cannot be opened strands an empty partition",
        f"{_PLANNING}/disk_claims.py",
        " for claim in claims if claim.is_open and not claim.is_empty}\n",
        " for claim in claims if not claim.is_empty}\n",
        "tests/unit/qss_operator/planning/test_stranded_rows.py"
        "::test_an_empty_partition_is_not_stranded_by_a_learner_that_cannot_be_opened",
    ),
    Plant.of(
        "a replica that followed its active through an accepted loss is kept for ever",
        f"{_MEMBERSHIP}/retirements.py",
        "    if newer := [loss for loss in active.losses if loss not in left.losses]:\n",
        "    if newer := active.losses:\n",
        f"{_LEFT}::test_standbys_come_back_after_an_accepted_loss",
    ),
    Plant.of(
        "a learner that cannot be opened keeps a left replica",
        f"{_MEMBERSHIP}/retirements.py",
        "replica_of(observation.reports, pod, entry) for pod in entry.in_sync]\n",
        "replica_of(observation.reports, pod, entry) for pod in entry.replicas]\n",
        f"{_LEFT}::test_a_pod_is_emptied_although_its_standby_does_not_open_and_its_successor_has_an_"
        "old_one[lost]",
    ),
)

if __name__ == "__main__":
    run(UNLIKE_PLANTS)
