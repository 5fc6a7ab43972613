"""Rules of standbys that can be taken out, each with a test that must then fail.

`python -m qss_testing.plants.planted_standbys` takes each of them out, as `make planted` does; the
simulation plants them, too.
"""

from qss_testing.plants.planted import Plant, run

_STORE = "store-pod/qss_store"
_PEERS = f"{_STORE}/replicas/peers"
_MEMBERSHIP = "operator/qss_operator/planning/membership"
_JOINED = "tests/integration/replicas/test_joined_standbys.py"
_STANDBYS = "tests/integration/replicas/test_standbys.py"
_PLANNER = "tests/unit/qss_operator/planning/test_membership.py"
_OLDER = "tests/integration/replicas/test_older_assignments.py"
_RESTARTS = "tests/unit/qss_operator/planning/test_restarts.py"
_STUCK = "tests/unit/qss_operator/planning/test_stuck_pods.py"
_DELETED = "tests/unit/qss_operator/planning/test_deleted_volumes.py"
_MOVES = "tests/unit/qss_operator/planning/test_moves.py"
_TOGETHER = "tests/unit/qss_operator/planning/test_moves_together.py"
_CORDONED = "tests/unit/qss_operator/planning/test_cordoned_nodes.py"
_LEASES = "tests/unit/qss_store/replication/test_lease.py"

STANDBY_PLANTS = (
    Plant.of(
        "a batch between two epochs is acknowledged",
        f"{_STORE}/writes/commit_driver.py",
        "                return\n        await self.finish()\n",
        "                return\n            await self.finish()\n",
        "tests/unit/qss_store/writes/test_commit_driver.py"
        "::test_a_coordinator_that_may_not_answer_does_not_say_that_a_batch_is_complete",
    ),
    Plant.of(
        "an active that started again acts in its old epoch",
        f"{_STORE}/replicas/changelog/changelog.py",
        "        self.may_act = not meta or (",
        "        self.may_act = True or (",
        f"{_STANDBYS}::test_an_active_that_started_again_waits_for_its_next_epoch",
    ),
    Plant.of(
        "a new active does not wait for the lease of the old one",
        f"{_PEERS}/active_service.py",
        "        if not self._following.may_begin():\n            asyncio",
        "        if False:\n            asyncio",
        f"{_STANDBYS}::test_a_new_active_waits_until_the_lease_of_the_old_one_has_run_out",
    ),
    Plant.of(
        "an active without a lease tells its standby that it is fresh",
        f"{_PEERS}/follower_progress.py",
        "            after=follower.answered if is_acting else None,\n",
        "            after=follower.answered,\n",
        f"{_STANDBYS}::test_a_standby_that_hears_only_an_active_without_a_lease_is_not_level",
    ),
    Plant.of(
        "an active without a lease answers",
        f"{_PEERS}/active_service.py",
        "        if not self._followers.has_lease():\n",
        "        if False:\n",
        f"{_STANDBYS}::test_a_standby_that_does_not_answer_is_reported_and_commits_wait",
    ),
    Plant.of(
        "a follower acknowledges before it has synced",
        f"{_PEERS}/follower_service.py",
        "            if changelog.owes_sync:\n                await changelog.sync()\n",
        "",
        "tests/integration/replicas/test_follower_replica.py",
    ),
    Plant.of(
        "an active does not see that its volume went back",
        f"{_PEERS}/follower_progress.py",
        "        if watermark.offset > log.end or (",
        "        if watermark.offset < 0 and (",
        f"{_STANDBYS}::test_an_active_whose_volume_went_back_is_found_by_its_standby",
    ),
    Plant.of(
        "a learner that copies a database keeps its old one",
        f"{_PEERS}/learner_progress.py",
        "        self._epoch.states()[pod].needs_copy = True\n",
        "        self._epoch.states()[pod].needs_copy = False\n",
        f"{_STANDBYS}::test_a_learner_whose_entries_were_cut_copies_the_database",
    ),
    Plant.of(
        "an old volume of a standby takes over",
        f"{_MEMBERSHIP}/failover.py",
        "    if candidates is sound and is_risky:\n",
        "    if False:\n",
        f"{_PLANNER}::test_a_standby_that_was_not_compared_since_its_start_takes_over_later",
    ),
    Plant.of(
        "an old state is brought to a new replica",
        f"{_MEMBERSHIP}/moves.py",
        "    return active is not None and active.state in SOUND\n",
        "    return active is not None\n",
        f"{_PLANNER}::test_a_partition_with_fewer_replicas_than_the_spec_asks_for_gets_learners",
    ),
    Plant.of(
        "an active that is behind has its standbys removed",
        f"{_MEMBERSHIP}/epochs.py",
        "    silent = set(active.silent) & _standbys(entry) if is_sound else set()\n",
        "    silent = set(active.silent) & _standbys(entry)\n",
        f"{_PLANNER}::test_a_standby_that_its_active_reports_as_silent_leaves_the_in_sync_set",
    ),
    Plant.of(
        "another process of a pod releases a promise",
        f"{_STORE}/replication/lease.py",
        "term.process != process or term.epoch",
        "term.epoch",
        f"{_LEASES}::test_another_process_of_the_same_pod_releases_nothing",
    ),
    Plant.of(
        "an active releases the epoch in which it may act",
        f"{_STORE}/replication/lease.py",
        " or term.epoch >= epoch\n",
        "\n",
        f"{_LEASES}::test_an_active_that_holds_a_later_epoch_is_not_waited_for",
    ),
    Plant.of(
        "a replica is removed before the new one is in sync",
        f"{_MEMBERSHIP}/moves.py",
        "    if not all(is_sound(reports, pod, entry) for pod in target.replicas):\n",
        "    if False:\n",
        f"{_MOVES}::test_a_partition_stays_where_it_is_until_its_new_replica_is_in_sync",
    ),
    Plant.of(
        "partitions move while a pod is silent",
        f"{_MEMBERSHIP}/moves.py",
        "    if silent or len(wanted) < spec.replicas:\n",
        "    if False:\n",
        f"{_MOVES}::test_nothing_moves_while_a_pod_that_stays_is_silent",
    ),
    Plant.of(
        "a replica is deleted before those that are left know that they are alone",
        f"{_MEMBERSHIP}/retirements.py",
        "        and _held_everywhere(observation, entry)\n",
        "        and replica_of(observation.reports, entry.active, entry) is not None\n",
        f"{_MOVES}::test_a_replica_is_deleted_only_when_all_that_are_left_know_of_it",
    ),
    Plant.of(
        "a deleted replica leaves its sync mark",
        f"{_STORE}/replicas/opening/retirement.py",
        "            await self._marks.forget(store_id, partition)\n",
        "",
        "tests/integration/replicas/test_retirement.py"
        "::test_a_deleted_replica_is_no_lost_one_when_the_partition_comes_back",
    ),
    Plant.of(
        "a pod deletes a replica in another epoch than the operator names",
        f"{_STORE}/replicas/opening/assignment_checks.py",
        "    if held.epoch != request.epoch or held.role_of(pod) is not None:\n",
        "    if held.role_of(pod) is not None:\n",
        "tests/integration/replicas/test_retirement.py"
        "::test_a_replica_that_is_left_out_is_deleted_when_it_is_asked_for",
    ),
    Plant.of(
        "a pod that has replicas is removed",
        "operator/qss_operator/planning/scaling.py",
        "        return bool(report.replicas or lost) or may_hold_more(pod, report)\n",
        "        return False\n",
        f"{_MOVES}::test_a_pod_is_removed_when_it_has_no_replica",
    ),
    Plant.of(
        "an older assignment makes a deleted replica anew",
        f"{_STORE}/replicas/opening/assignment_checks.py",
        "    if known is None:\n        return\n",
        "    return\n",
        f"{_OLDER}::test_an_older_assignment_makes_no_deleted_replica_anew",
    ),
    Plant.of(
        "an assignment for an earlier process is taken",
        f"{_STORE}/replicas/opening/assignment_checks.py",
        '    if assignment.incarnation not in ("", process):\n',
        "    if False:\n",
        f"{_OLDER}::test_an_assignment_for_an_earlier_process_is_refused",
    ),
    Plant.of(
        "a pod forgets the epoch in which a replica left",
        f"{_STORE}/replicas/opening/assignment_checks.py",
        "    if kept != held:\n",
        "    if False:\n",
        f"{_OLDER}::test_a_replica_is_deleted_only_when_the_pod_has_kept_the_epoch",
    ),
    Plant.of(
        "a volume of before a move has an active",
        f"{_STORE}/writes/sequence_comparison.py",
        "            await self._hear_configurations(pod)\n",
        "",
        f"{_OLDER}::test_a_volume_of_before_a_move_serves_nothing_once_it_was_compared",
    ),
    Plant.of(
        "files that do not open hold up an assignment",
        f"{_STORE}/replicas/assigned_replicas.py",
        "is_learner = configuration.role_of(self._ordinal) is Role.LEARNER\n",
        "is_learner = False\n",
        f"{_OLDER}::test_files_that_do_not_open_hold_up_no_assignment",
    ),
    Plant.of(
        "a failover is decided by reports of before a wait",
        "operator/qss_operator/reconcile/pod_reports.py",
        "if ended_s - answer.at_s > _OLD_S}\n",
        "if False}\n",
        "tests/unit/qss_operator/test_pod_reports.py"
        "::test_reports_that_waited_for_another_pod_are_asked_for_again",
    ),
    Plant.of(
        "a learner's rows are stranded by what its pod in sync lost",
        "operator/qss_operator/planning/disk_claims.py",
        "is_any_open = any(one.is_open and one.pod in entry.in_sync for one in claims)\n",
        "is_any_open = True\n",
        "tests/unit/qss_operator/planning/test_stranded_rows.py"
        "::test_data_of_a_learner_is_not_stranded_where_the_replica_in_sync_cannot_be_opened",
    ),
    Plant.of(
        "an active does not greet a learner that has installed its copy",
        "store-pod/qss_store/replicas/transfer/snapshots.py",
        "replica is not None and request.is_installed:\n",
        "replica is not None and False:\n",
        "tests/integration/replicas/test_learner_snapshots.py"
        "::test_a_learner_that_has_installed_its_copy_is_greeted_at_once",
    ),
    Plant.of(
        "an entry that nobody acknowledged strands an active without entries",
        "operator/qss_operator/planning/disk_claims.py",
        "    return held == entry or (is_older and not claim.is_open)\n",
        "    return not claim.is_open and (held == entry or is_older)\n",
        "tests/unit/qss_operator/planning/test_stranded_rows.py"
        "::test_an_entry_that_only_a_learner_has_does_not_strand_an_active_without_entries",
    ),
    Plant.of(
        "an active without entries goes on although its learner has applied some",
        "operator/qss_operator/planning/disk_claims.py",
        "if members and not (own.has_applied and is_any_open)\n",
        "if members\n",
        "tests/unit/qss_operator/planning/test_stranded_rows.py"
        "::test_an_entry_that_only_a_learner_has_does_not_strand_an_active_without_entries",
    ),
    Plant.of(
        "a standby without entries takes over although a learner has applied some",
        "operator/qss_operator/planning/disk_claims.py",
        "is_any_open = any(one.is_open and one.pod in entry.in_sync for one in claims)\n",
        "is_any_open = all(one.is_open for one in members)\n",
        "tests/unit/qss_operator/planning/test_stranded_rows.py"
        "::test_a_standby_without_entries_takes_over_from_no_lost_active_whose_learner_has_rows",
    ),
    Plant.of(
        "the rows of a pod without a role are given up with a lost replica",
        "operator/qss_operator/planning/disk_claims.py",
        "if own.configuration == entry and entry.role_of(pod) is not None\n",
        "if own.configuration == entry\n",
        "tests/unit/qss_operator/planning/test_stranded_rows.py"
        "::test_data_of_a_pod_that_was_left_out_is_stranded_where_the_replica_in_sync_is_lost",
    ),
    Plant.of(
        "a learner with all batches gives way to a database that does not open",
        "operator/qss_operator/planning/fullest_learner.py",
        "    return learner if _has_all_completed(observation, entry, learner[1]) else None\n",
        "    return None\n",
        "tests/unit/qss_operator/planning/test_losses.py"
        "::test_a_learner_goes_on_after_a_loss_where_it_has_all_that_was_completed",
    ),
    Plant.of(
        "an empty pod of learners waits for pods that are silent",
        "operator/qss_operator/planning/missing_data.py",
        "        if not all(\n            replica_of(",
        "        if True or not all(\n            replica_of(",
        "tests/unit/qss_operator/planning/test_plan.py"
        "::test_an_empty_pod_of_learners_is_told_while_another_pod_is_silent",
    ),
    Plant.of(
        "a lost replica ends the creation of a store",
        "operator/qss_operator/planning/findings/conditions.py",
        "(is_new or not _volume_trouble(observation, known))",
        "not _volume_trouble(observation, known)",
        "tests/unit/qss_operator/planning/test_disk_claims.py"
        "::test_a_lost_replica_ends_no_creation_before_every_pod_has_its_assignment",
    ),
    Plant.of(
        "a replica that has more than its active is deleted",
        f"{_MEMBERSHIP}/retirements.py",
        "        and (has_more(left, active) or is_evidence",
        "        and (is_evidence",
        f"{_MOVES}::test_a_left_replica_that_has_more_than_its_active_is_kept",
    ),
    Plant.of(
        "a pod that opens its replicas is removed",
        "operator/qss_operator/planning/scaling.py",
        "bool(report.replicas or lost) or may_hold_more(pod, report)\n",
        "bool(report.replicas or lost)\n",
        f"{_MOVES}::test_a_pod_that_opens_its_replicas_is_not_removed",
    ),
    Plant.of(
        "a pod restarts while it is in sync",
        f"{_MEMBERSHIP}/restart_steps.py",
        "    counted = [entry for entry in kept if number in entry.in_sync]\n",
        "    counted: list[PartitionConfiguration] = []\n",
        f"{_RESTARTS}::test_a_pod_has_no_active_and_is_not_in_sync_when_it_restarts",
    ),
    Plant.of(
        "a roll goes on past a restarted pod that is not in sync",
        f"{_MEMBERSHIP}/restarts.py",
        "if one[0] in new]",
        "if one[0] in new[:0]]",
        f"{_STUCK}::test_a_roll_stops_at_a_pod_that_serves_and_does_not_come_back_in_sync",
    ),
    Plant.of(
        "a pod with a deleted volume restarts while others lack its data",
        f"{_MEMBERSHIP}/restarts.py",
        "    if only := [entry",
        "    if only := ()[:0] and [entry",
        f"{_DELETED}::test_a_pause_and_an_unsound_copy_keep_the_pod",
    ),
    Plant.of(
        "an active is handed over to a replica that waits for a lease",
        f"{_MEMBERSHIP}/moves.py",
        "        return None if waits else _next(entry, active=target.active)\n",
        "        return _next(entry, active=target.active)\n",
        f"{_RESTARTS}::test_actives_go_only_where_they_can_act_at_once",
    ),
    Plant.of(
        "a database is made before open replicas take their epochs",
        f"{_STORE}/replicas/registry.py",
        "key=lambda one: one.partition not in self.replicas",
        "key=lambda one: one.partition",
        "tests/integration/replicas/test_new_replicas.py"
        "::test_replicas_take_their_new_epochs_before_a_database_is_made",
    ),
    Plant.of(
        "each move is published for itself",
        f"{_MEMBERSHIP}/moves.py",
        "(spec.rebalance.paused or observation.moves_wait)",
        "spec.rebalance.paused",
        f"{_TOGETHER}::test_a_scale_publishes_its_changes_once_a_second_for_all_partitions",
    ),
    Plant.of(
        "a partition without its standby waits for moves",
        f"{_MEMBERSHIP}/epochs.py",
        "observation.moves_wait and len(entry.in_sync) >= copies",
        "observation.moves_wait",
        f"{_TOGETHER}::test_a_partition_without_its_standby_does_not_wait_for_moves",
    ),
    Plant.of(
        "fewer standbys hand the actives over",
        f"{_MEMBERSHIP}/moves.py",
        "    if is_same or len(entry.replicas) > copies:\n",
        "    if True:\n",
        f"{_MOVES}::test_the_actives_stay_where_fewer_standbys_are_asked_for",
    ),
    Plant.of(
        "a pod on a cordoned node gets a new replica",
        "operator/qss_operator/planning/placement/draft.py",
        "        is_closed = [pod not in self.open for pod in pods]",
        "        is_closed = [False for pod in pods]",
        f"{_CORDONED}::test_a_new_store_uses_the_pods_of_other_nodes",
    ),
    Plant.of(
        "a replica takes promises for ended that nobody will end",
        f"{_STORE}/replication/lease.py",
        "        until > now_s and term.process not in present for",
        "        False for",
        f"{_LEASES}::test_a_replica_is_bound_by_promises_that_its_active_will_not_release",
    ),
    Plant.of(
        "a learner that takes entries is never told to copy",
        f"{_PEERS}/learner_progress.py",
        "        if not follower.needs_copy or now_s < follower.copy_again_s:\n",
        "        if not follower.needs_copy or now_s < follower.sent_s + _COPY_AGAIN_S:\n",
        f"{_STANDBYS}::test_a_learner_that_meets_damage_while_it_takes_entries_copies_the_database",
    ),
    Plant.of(
        "damage that a read meets is told to nobody",
        f"{_STORE}/reads/context.py",
        "        if isinstance(answer, CorruptionError):\n",
        "        if answer is self and isinstance(answer, CorruptionError):\n",
        "tests/integration/reads/test_queries_damage.py"
        "::test_another_replica_answers_and_the_pod_reports_the_damage",
    ),
    Plant.of(
        "a standby answers before it has applied the log that it joined with",
        f"{_STORE}/replicas/apply/catch_up.py",
        "            self._is_level, self._is_behind = False, True\n",
        "            self._is_behind = True\n",
        f"{_JOINED}::test_a_standby_that_has_joined_and_not_applied_its_log_answers_no_read",
    ),
    Plant.of(
        "a start forgets that a standby was behind",
        f"{_STORE}/replicas/apply/catch_up.py",
        "        self._is_behind = _BEHIND in meta\n",
        "        self._is_behind = False\n",
        f"{_JOINED}::test_a_standby_that_starts_again_before_it_has_applied_its_log_is_behind_still",
    ),
)

if __name__ == "__main__":
    run(STANDBY_PLANTS)
