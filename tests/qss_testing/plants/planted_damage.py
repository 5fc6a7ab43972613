"""Rules of damaged blocks and volumes that can be taken out, each with a test that must then fail.

`python -m qss_testing.plants.planted_damage` takes each of them out, as `make planted` does. The
simulation does not plant them: no block of its databases is damaged.
"""

from qss_testing.plants.planted import Change, Plant, run

_STORE = "store-pod/qss_store"
_MEMBERSHIP = "operator/qss_operator/planning/membership"
_PLANNER = "tests/unit/qss_operator/planning/test_membership.py"
_FAILURES = "tests/integration/replicas/test_standbys_failures.py"
_SCRUBBER = "tests/integration/damage/test_scrubber.py"
_ROWS = "tests/integration/replicas/test_row_comparison.py"
_ALARM = f"{_STORE}/replicas/peers/unlike_alarm.py"
_WAITS = "tests/integration/replicas/test_comparison_waits.py"
_COMPARISON = f"{_STORE}/replicas/transfer/row_comparison.py"
_DIGEST = f"{_STORE}/storage/views/row_digest.py"
_LOSSES = "operator/qss_operator/planning/losses.py"
_LEARNER = "operator/qss_operator/planning/fullest_learner.py"
_LOSSES_TEST = "tests/unit/qss_operator/planning/test_losses.py"
_STRANDED_TEST = "tests/unit/qss_operator/planning/test_stranded_rows.py"
_RECEIVER = f"{_STORE}/replicas/transfer/log_receiver.py"

DAMAGE_PLANTS = (
    Plant.of(
        "a damaged active that has stopped waits for a comparison",
        f"{_MEMBERSHIP}/failover.py",
        "active.has_damage and _acts(active)\n",
        "active.has_damage\n",
        f"{_PLANNER}::test_an_active_with_a_damaged_block_that_cannot_act_does_not_wait_for_a_"
        "comparison",
    ),
    Plant.of(
        "a replica with a damaged block leads nowhere",
        f"{_MEMBERSHIP}/failover.py",
        "    if whole or goes_on:\n",
        "    if whole or True:\n",
        f"{_PLANNER}::test_a_replica_with_a_damaged_block_leads_where_no_other_one_can",
    ),
    Plant.of(
        "a damaged active has its copy copied again",
        f"{_STORE}/replicas/transfer/peer_sender.py",
        "            if append is not None and replica.health.damage is not None:\n",
        "            if append is not None and replica.health.failure is not None:\n",
        f"{_FAILURES}::test_a_copy_of_a_damaged_active_is_damaged_too_and_is_made_once",
    ),
    Plant.of(
        "known damage is forgotten",
        f"{_STORE}/replicas/apply/replica_health.py",
        "            put_damage(batch, error)\n",
        "            put_damage(batch, None)\n",
        f"{_SCRUBBER}::test_known_damage_is_kept_and_forgotten_with_a_pass_that_meets_none",
    ),
    Plant.of(
        "a database is opened whose logs lack writes before others",
        f"{_STORE}/storage/rocksdb/database.py",
        "            check_no_hole(path)\n",
        "            pass\n",
        "tests/unit/qss_store/storage/test_log_holes.py"
        "::test_a_database_whose_older_log_lost_its_end_is_not_opened",
    ),
    Plant.of(
        "a salvage reads what lies behind missing writes",
        f"{_STORE}/storage/rocksdb/database.py",
        "            cut_behind_hole(path)\n",
        "            pass\n",
        "tests/unit/qss_store/storage/test_log_holes.py"
        "::test_a_salvage_reads_the_logs_up_to_the_hole",
    ),
    Plant.of(
        "damage that is met again during a pass is forgotten",
        f"{_STORE}/replicas/volume/scrubber.py",
        "            if health.damage is known:\n",
        "            if known is not None:\n",
        f"{_SCRUBBER}::test_damage_that_is_met_again_during_a_pass_keeps_its_mark",
    ),
    Plant.of(
        "a restart forgets when the last pass ended",
        f"{_STORE}/replicas/apply/replica_health.py",
        "        put_last_read(batch, at_ms)\n",
        "",
        f"{_SCRUBBER}::test_a_pass_is_due_a_rest_after_the_last_one_also_after_a_restart",
    ),
    Plant.of(
        "a pass that ended in the future counts",
        f"{_STORE}/replicas/volume/scrubber.py",
        "not 0 <= self._clock.wall_ms() - last_ms < rest_ms\n",
        "not self._clock.wall_ms() - last_ms < rest_ms\n",
        f"{_SCRUBBER}::test_a_pass_that_ended_in_the_future_does_not_count",
    ),
    Plant.of(
        "a copy was read when its source was",
        f"{_STORE}/storage/replica_identity.py",
        "    batch.delete(META, _READ_AT)\n",
        "",
        f"{_SCRUBBER}::test_nobody_has_read_the_rows_of_a_new_copy",
    ),
    Plant.of(
        "a pod that has just started reads its rows",
        f"{_STORE}/replicas/volume/scrubber.py",
        "min(_LOOK_S, self._settings.scrub_rest_s)",
        "0",
        f"{_SCRUBBER}::test_a_pod_that_has_just_started_reads_nothing_yet",
    ),
    Plant.of(
        "a scan of a replaced replica marks the copy",
        f"{_STORE}/replicas/registry.py",
        "(met_in is None or met_in is replica):\n",
        "True:\n",
        "tests/integration/reads/test_queries_damage.py"
        "::test_a_scan_of_a_replica_that_was_replaced_does_not_mark_the_copy",
    ),
    Plant.of(
        "a loss that was accepted in the log does not count",
        f"{_STORE}/replicas/rollback_check.py",
        "            elif isinstance(command, AcceptLoss):\n"
        "                last = max(last, command.held.sequence)\n",
        "",
        f"{_FAILURES}::test_a_loss_that_was_accepted_in_the_log_counts_before_it_is_applied",
    ),
    Plant.of(
        "a damaged active keeps its lease from the next one",
        f"{_STORE}/replicas/peers/follower_service.py",
        "        self._check_health()\n        await self._take_epoch(configuration)\n",
        "        damage = self._parts.health.damage\n        if damage:\n"
        "            raise damage\n        await self._take_epoch(configuration)\n",
        f"{_FAILURES}::test_a_damaged_active_releases_its_lease_to_the_next_one",
    ),
    Plant.of(
        "a read asks no other replica after one that is rolled back",
        f"{_STORE}/reads/routing/replica_router.py",
        "    OverloadedError,\n    RolledBackError,\n    StoreNotFoundError,\n",
        "    OverloadedError,\n    StoreNotFoundError,\n",
        "tests/unit/qss_store/reads/test_replica_router.py"
        "::test_where_one_replica_is_rolled_back_the_others_are_asked",
    ),
    Plant.of(
        "an older active that begins its epoch gives up the standby that has all",
        f"{_STORE}/replicas/rollback_check.py",
        "        if replica.acting.begins_epoch and held < self.completed:\n",
        "        if replica.acting.begins_epoch and held < 0:\n",
        "tests/simulation/test_scenarios.py::test_a_scenario_holds"
        "[08-volumes.txt-an-active-with-an-older-volume-does-not-give-its-silent-standby-up]",
    ),
    Plant.of(
        "a volume that answers nothing but errors keeps its pod",
        f"{_STORE}/replicas/volume/volume_watch.py",
        "            failures = failures + 1 if gone is None else 0\n",
        "            failures = 0\n",
        "tests/unit/qss_store/replicas/test_volume_watch.py"
        "::test_the_watch_ends_where_the_volume_answers_nothing_but_errors",
    ),
    Plant.of(
        "older versions are not compared",
        _COMPARISON,
        "            if part == len(parts_of(view)):\n",
        "            if part == 1:\n",
        f"{_ROWS}::test_all_versions_of_a_key_are_compared",
    ),
    Plant.of(
        "timestamps are compared",
        _DIGEST,
        "    if view.format is not Format.Plain:\n",
        "    if view.format is None:\n",
        f"{_ROWS}::test_a_timestamp_that_a_migration_may_have_lost_does_not_count",
    ),
    Plant.of(
        "a row more at the end of a standby is not compared",
        _DIGEST,
        "    limits = count + 1, ",
        "    limits = count, ",
        f"{_ROWS}::test_nobody_can_tell_which_of_unlike_replicas_is_right",
    ),
    Plant.of(
        "a standby compares the state that it has",
        _RECEIVER,
        "        if view is None or view.sequence != request.sequence:\n",
        "        if view is None:\n",
        "tests/integration/replicas/test_replication_bad_input.py"
        "::test_a_comparison_is_of_rows_that_the_active_may_have",
    ),
    Plant.of(
        "a damaged standby is compared",
        _RECEIVER,
        "        if replica.health.damage is not None:\n",
        "        if False:\n",
        f"{_ROWS}::test_a_damaged_standby_and_one_that_is_away_are_left_out",
    ),
    Plant.of(
        "a restart forgets that replicas are unlike",
        _ALARM,
        "        health.unlike = decode(kept, UnlikeRows) if kept else None\n",
        "        health.unlike = None\n",
        f"{_ROWS}::test_unlike_replicas_are_compared_again_in_another_epoch_and_after_a_restart",
    ),
    Plant.of(
        "a restart forgets that a replica waits to be compared",
        _ALARM,
        "        health.waits_for_comparison = kept == _WAITS\n",
        "",
        f"{_WAITS}::test_a_wait_for_a_comparison_outlives_a_restart",
    ),
    Plant.of(
        "a copy has the alarm of its source",
        f"{_STORE}/replicas/opening/open_database.py",
        "        forget_alarm(batch)\n",
        "",
        f"{_WAITS}::test_a_copy_of_an_active_with_an_alarm_has_none",
    ),
    Plant.of(
        "an alarm that a configuration has ended ends the wait",
        _COMPARISON,
        "        self.has_ended = replica.health.unlike is unlike ",
        "        self.has_ended = True ",
        f"{_WAITS}::test_a_pass_ends_no_wait_that_began_during_it",
    ),
    Plant.of(
        "unlike replicas are not compared in the next epoch",
        f"{_STORE}/replicas/volume/scrubber.py",
        "is_whole and health.unlike.epoch != configuration.epoch\n",
        "False\n",
        f"{_ROWS}::test_unlike_replicas_are_compared_again_in_another_epoch_and_after_a_restart",
    ),
    Plant.of(
        "the alarm of unlike replicas ends with their epoch",
        f"{_STORE}/replicas/report.py",
        "unlike if is_active else None",
        "unlike if unlike and is_active and unlike.epoch "
        "== replica.log.configuration.epoch else None",
        f"{_ROWS}::test_an_alarm_outlives_the_time_that_a_standby_is_away",
    ),
    Plant.of(
        "the alarm of unlike replicas ends while one of them is away",
        _COMPARISON,
        " and {*configuration.replicas} == {*configuration.in_sync}:\n",
        ":\n",
        f"{_ROWS}::test_an_alarm_ends_when_all_replicas_were_compared_and_the_standbys_hear_of_it",
    ),
    Plant.of(
        "a pass without a standby in sync counts as a comparison",
        _COMPARISON,
        "            return len(configuration.replicas) == 1 and not ",
        "            return True or ",
        f"{_ROWS}::test_a_pass_without_a_standby_in_sync_is_made_again_when_one_is",
    ),
    Plant.of(
        "a pass that broke off counts as a comparison",
        _COMPARISON,
        "        return one.has_ended\n",
        "        return True\n",
        f"{_WAITS}::test_a_pass_during_which_a_standby_is_away_is_made_again",
    ),
    Plant.of(
        "a pass that met a damaged block counts as a comparison",
        f"{_STORE}/replicas/volume/scrubber.py",
        "            is_compared = not health.waits_for_comparison\n",
        "",
        f"{_WAITS}::test_a_damaged_block_ends_no_wait",
    ),
    Plant.of(
        "a left replica that comes back is not compared soon",
        f"{_STORE}/replicas/apply/replica_health.py",
        "            self.unlike, self.waits_for_comparison = None, True\n",
        "            self.unlike = None\n",
        f"{_ROWS}::test_the_alarm_ends_with_the_standbys_and_a_new_one_is_compared_soon",
    ),
    Plant(
        "a comparison without a version is of the receiver's own",
        (
            Change(
                f"{_STORE}/replication/messages.py",
                "DIGEST_VERSION = 1  #",
                "DIGEST_VERSION = 2  #",
            ),
            Change(
                f"{_STORE}/replication/messages.py",
                "    version: int = 1  #",
                "    version: int = DIGEST_VERSION  #",
            ),
        ),
        "tests/integration/replicas/test_replication_bad_input.py"
        "::test_a_comparison_that_names_no_version_is_of_the_first_one",
    ),
    Plant.of(
        "an active of another epoch tells a standby of unlike rows",
        _RECEIVER,
        "        check_follows(replica.log, configuration)\n        return partition",
        "        return partition",
        "tests/integration/replicas/test_replication_bad_input.py"
        "::test_an_active_of_another_epoch_tells_of_no_unlike_rows",
    ),
    Plant.of(
        "the operator compares no sequences of partitions",
        _LOSSES,
        "        why = unopened or _why_behind_of(observation, entry, report)\n",
        "        why = unopened\n",
        f"{_LOSSES_TEST}::test_what_was_complete_a_round_ago_is_missed_also_where_the_pods_do_not_"
        "say_so",
    ),
    Plant.of(
        "a loss is accepted for any epoch",
        _LOSSES,
        "accepted.get(one.partition) == one.epoch\n",
        "one.partition in accepted\n",
        f"{_LOSSES_TEST}::test_an_annotation_that_names_another_epoch_or_nothing_does_nothing_and_is_"
        "told",
    ),
    Plant.of(
        "an accepted loss stays accepted for the next one",
        _LOSSES,
        "    return replace(entry, epoch=Epoch(entry.epoch + 1)) if taken else entry\n",
        "    return entry\n",
        f"{_LOSSES_TEST}::test_an_accepted_loss_is_taken_once_and_gets_the_partition_its_next_epoch",
    ),
    Plant.of(
        "an accepted loss waits for a learner whose volume is gone",
        _LEARNER,
        "        if not is_of_store and entry.partition not in report.unassigned:\n"
        "            continue\n",
        "",
        f"{_LOSSES_TEST}::test_a_loss_is_accepted_where_every_volume_of_a_store_with_standbys_"
        "is_gone",
    ),
    Plant.of(
        "a learner takes over from a volume that lacks its assignment alone",
        _LEARNER,
        "        and entry.partition not in reports[pod].unassigned\n",
        "",
        f"{_LOSSES_TEST}::test_no_learner_goes_on_where_the_pod_in_sync_lost_its_assignment_alone",
    ),
    Plant.of(
        "a learner without the last acknowledged batch takes over",
        _LEARNER,
        "max(*known, min(others, default=learner.sequence))",
        "max(known)",
        f"{_STRANDED_TEST}::test_a_learner_gives_way_where_it_lacks_a_batch_that_all_others_have_"
        "applied",
    ),
    Plant.of(
        "a learner with all batches gives way to a replica that takes no writes",
        _LEARNER,
        "lost_replica(reports.get(pod), entry) or _unwritable(reports.get(pod), entry)",
        "lost_replica(reports.get(pod), entry)",
        f"{_STRANDED_TEST}::test_a_learner_with_every_batch_goes_on_where_the_replica_in_sync_"
        "takes_no_writes",
    ),
    Plant.of(
        "a learner takes over before another one has told its log",
        f"{_MEMBERSHIP}/epochs.py",
        " or may_have_fuller_learner(observation, entry):\n",
        ":\n",
        f"{_STRANDED_TEST}::test_a_learner_waits_for_another_one_that_may_have_more_rows",
    ),
    Plant.of(
        "an accepted loss keeps a standby that is older than its active",
        f"{_MEMBERSHIP}/epochs.py",
        "one.is_stopped or (one.configuration == entry and one.end_offset < least)",
        "one.is_stopped",
        f"{_PLANNER}::test_a_standby_that_does_not_come_back_is_given_up_beside_an_older_active_"
        "when_accepted",
    ),
    Plant.of(
        "a misplaced standby leaves an active that is behind",
        f"{_MEMBERSHIP}/epochs.py",
        "        if is_sound\n",
        "        if True\n",
        f"{_PLANNER}::test_a_standby_without_data_leaves_the_in_sync_set_at_once",
    ),
)

if __name__ == "__main__":
    run(DAMAGE_PLANTS)
