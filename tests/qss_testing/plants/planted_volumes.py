"""Rules of volumes and copies that can be taken out, each with a test that must then fail.

`python -m qss_testing.plants.planted_volumes` takes each of them out, as `make planted` does. The
simulation does not plant them: copies of its databases always have room.
"""

from qss_testing.plants.planted import Plant, run

_STORE = "store-pod/qss_store"
_SNAPSHOTS = "tests/integration/replicas/test_learner_snapshots.py"
_REPLACEMENT = "operator/qss_operator/planning/membership/replacement.py"
_FULL = "tests/unit/qss_operator/planning/test_full_volumes.py"

VOLUME_PLANTS = (
    Plant.of(
        "a learner that has installed its copy is told to copy once more",
        f"{_STORE}/replicas/peers/learner_progress.py",
        'follower.sent_s, follower.needs_copy = float("-inf"), False',
        'follower.sent_s = float("-inf")',
        "tests/integration/replicas/test_learner_snapshots.py"
        "::test_a_learner_that_has_installed_its_copy_needs_no_other_one",
    ),
    Plant.of(
        "a copy of a deposed active is fetched to its end",
        f"{_STORE}/replicas/transfer/learner_copies.py",
        "        await self._pace(size)\n        check()\n",
        "        await self._pace(size)\n",
        f"{_SNAPSHOTS}::test_a_copy_of_a_deposed_active_is_given_up_between_two_parts",
    ),
    Plant.of(
        "a copy is begun that has no room",
        f"{_STORE}/replicas/transfer/learner_copies.py",
        "            await self._pod.room.check_copy(partition, self._lacking_bytes())\n",
        "            pass\n",
        f"{_SNAPSHOTS}::test_a_copy_without_room_takes_none_and_is_tried_again_ever_later",
    ),
    Plant.of(
        "the bytes of files under way are needed twice",
        f"{_STORE}/replicas/transfer/learner_copies.py",
        " for files in self._files.values() for file in files)\n",
        " for files in self._files.values() for file in files[2:])\n",
        f"{_SNAPSHOTS}::test_the_bytes_of_files_under_way_are_not_needed_a_second_time",
    ),
    Plant.of(
        "a copy without room is tried again at once",
        f"{_STORE}/replicas/transfer/learner_copies.py",
        "monotonic_s() < waits.until_s:\n",
        "monotonic_s() < waits.until_s - 100:\n",
        f"{_SNAPSHOTS}::test_a_copy_without_room_takes_none_and_is_tried_again_ever_later",
    ),
    Plant.of(
        "a copy lets the entries behind an earlier one go",
        f"{_STORE}/replicas/apply/checkpoints.py",
        "            pins[learner] = (changelog.log.applied, self._pinned_until_s())\n",
        "            pins.clear()\n"
        "            pins[learner] = (changelog.log.applied, self._pinned_until_s())\n",
        "tests/integration/replicas/test_kept_entries.py"
        "::test_entries_stay_for_a_learner_while_another_one_copies_and_joins",
    ),
    Plant.of(
        "a copy takes the bytes that the pod keeps back",
        f"{_STORE}/replicas/transfer/copied_file.py",
        "        if free < RESERVE_BYTES + len(data):\n",
        "        if free < 0:\n",
        "tests/unit/qss_store/replicas/test_copied_file.py"
        "::test_a_file_leaves_the_bytes_that_the_pod_keeps_back",
    ),
    Plant.of(
        "a pod with a copy that has no room gets further replicas",
        "operator/qss_operator/planning/membership/moves.py",
        "volume.takes_no_copy)\n",
        "volume.is_full)\n",
        f"{_FULL}::test_a_volume_that_a_copy_has_no_room_on_is_told_and_gets_no_new_replicas",
    ),
    Plant.of(
        "a refused copy takes the others of its pod elsewhere",
        _REPLACEMENT,
        "    if not volume.is_full and (volume.refused_copies or has_begun):\n",
        "    if not volume.is_full and has_begun and volume.is_full:\n",
        f"{_FULL}::test_a_refused_copy_alone_goes_to_another_pod_beside_a_copy_that_runs",
    ),
    Plant.of(
        "a refused copy over an old database is waited for",
        _REPLACEMENT,
        "    if volume is None or partition in volume.refused_copies:\n",
        "    if volume is None:\n",
        f"{_FULL}::test_a_refused_copy_over_an_old_database_goes_to_another_pod",
    ),
    Plant.of(
        "a copy that has begun counts as refused",
        f"{_STORE}/replicas/volume/volume_watch.py",
        "            self._refused_copies.pop(partition, None)\n",
        "            pass\n",
        "tests/unit/qss_store/replicas/test_volume_watch.py"
        "::test_a_refused_copy_is_named_as_long_as_its_bytes_and_until_it_begins",
    ),
    Plant.of(
        "a refusal that has expired is told as room",
        f"{_STORE}/replicas/volume/volume_watch.py",
        "usage.free < RESERVE_BYTES + expired_bytes:\n",
        "usage.free < RESERVE_BYTES:\n",
        "tests/unit/qss_store/replicas/test_volume_watch.py"
        "::test_room_is_told_where_there_is_some_and_not_where_a_refusal_has_expired",
    ),
    Plant.of(
        "a copy is thrown away where the epoch changed",
        f"{_STORE}/replicas/registry.py",
        "        if newest.active != configuration.active:\n",
        "        if newest != configuration:\n",
        f"{_SNAPSHOTS}::test_a_copy_is_kept_where_the_epoch_changed_and_the_active_did_not",
    ),
    Plant.of(
        "entries behind a copy are cut once another learner counts",
        f"{_STORE}/replicas/peers/learner_progress.py",
        "            self._changelog.retention.pins.pop(learner, None)\n",
        "            self._changelog.retention.pins.clear()\n",
        f"{_SNAPSHOTS}::test_entries_behind_a_copy_are_kept_while_another_learner_joins",
    ),
    Plant.of(
        "a copy of an active that was deposed is kept",
        f"{_STORE}/replicas/registry.py",
        "        if newest.active != configuration.active:\n",
        "        if False:\n",
        f"{_SNAPSHOTS}::test_a_copy_of_an_active_that_has_changed_is_not_kept",
    ),
    Plant.of(
        "each report of a pod without an assignment waits for its volume",
        f"{_STORE}/replicas/registry.py",
        "() if held else self._file.unassigned,\n",
        "() if held or self._file.remember() else self._file.unassigned,\n",
        "tests/integration/damage/test_damage_of_kept_files.py"
        "::test_a_report_without_an_assignment_does_not_look_at_the_volume",
    ),
    Plant.of(
        "a column family is named still whose drop has failed",
        f"{_STORE}/storage/rocksdb/database.py",
        "                self._half_dropped.add(family)\n",
        "                self.column_families[family], self._handles[family] = rows, handle\n",
        "tests/unit/qss_store/storage/test_rocksdb_drop.py"
        "::test_a_database_goes_on_after_a_drop_whose_options_could_not_be_written",
    ),
    Plant.of(
        "a family whose drop has failed is refused for good",
        f"{_STORE}/storage/rocksdb/database.py",
        "            if family in self._half_dropped:\n",
        "            if False:\n",
        "tests/unit/qss_store/storage/test_rocksdb_drop.py"
        "::test_a_family_whose_drop_has_failed_asks_for_another_opening",
    ),
    Plant.of(
        "a family is dropped on a volume without room",
        f"{_STORE}/storage/rocksdb/database.py",
        "        self._budget.room.check(self._path, 0, makes_room=True)\n        rows, handle",
        "        rows, handle",
        "tests/unit/qss_store/storage/test_rocksdb_drop.py"
        "::test_a_family_is_not_dropped_where_the_volume_has_no_room",
    ),
)


if __name__ == "__main__":
    run(VOLUME_PLANTS)
