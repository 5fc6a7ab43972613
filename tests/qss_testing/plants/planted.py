"""Fixes of real bugs that can be taken out, for checks of the tests.

Each one has the lines of the fix, lines that plant the bug or an equal one, and a test that must
then fail. `make planted` runs every such test with its fix taken out.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
_STORE = "store-pod/qss_store"
_DURABILITY = "tests/integration/writes/test_writes_durability.py"
_DAMAGE = "tests/integration/writes/test_writes_damage.py"
_AT_START = "tests/integration/damage/test_damage_at_start.py"
_ROLLED_BACK = "tests/integration/writes/test_writes_rolled_back.py"
_TIMEOUT_S = 120


@dataclass(frozen=True, slots=True)
class Change:
    """Lines of a file, and the lines that replace them."""

    file: str
    mended: str
    planted: str


@dataclass(frozen=True, slots=True)
class Plant:
    """A bug, named by its effect."""

    name: str
    changes: tuple[Change, ...]
    # A path of tests, with `::` and a name, or `-k` words after a space; "" where only
    # `make simulate PLANTED=1` takes the mend out.
    test: str = ""

    @classmethod
    def of(cls, name: str, file: str, mended: str, planted: str, test: str = "") -> "Plant":
        """A bug of one change."""
        return cls(name, (Change(file, mended, planted),), test)


PLANTS = (
    Plant.of(
        "a token ends by the clock of the pod's node, not by the API server's",
        f"{_STORE}/access/token_claims.py",
        "    if claims.expires_at is None or claims.expires_at <= now_s:\n",
        "    if claims.expires_at is None:\n",
        "tests/unit/qss_store/access/test_token_ends.py",
    ),
    Plant.of(
        "a batch is decided whose message no other pod reads",
        f"{_STORE}/writes/coordinator_service.py",
        "            self._participants.check_decision(decision, len(payload))\n",
        "",
        "tests/integration/writes/test_writes_limits.py"
        "::test_a_batch_whose_message_no_other_pod_would_read_is_not_decided",
    ),
    Plant(
        "rows are cut that a commit still reads",
        (
            Change(
                f"{_STORE}/replication/log.py",
                "    if log.applied < log.watermark:\n        return point\n",
                "",
            ),
            Change(
                f"{_STORE}/replicas/changelog/changelog.py",
                "        if self.log.applied < self.log.watermark:\n",
                "        if False:\n",
            ),
            Change(
                f"{_STORE}/transactions/staged.py",
                "min((chunk.offset for chunk in self.values()), default=None)",
                "None",
            ),
            Change(
                f"{_STORE}/replicas/apply/apply_loop.py",
                "        self._changelog.retention.is_cut_owed = True\n"
                "        self._parts.wake.set()\n",
                "        machine = self._parts.machine\n"
                "        while self._changelog.cut(self.settings, machine.open_floor):\n"
                "            pass\n",
            ),
        ),
        f"{_DURABILITY}::test_a_round_of_maintenance_cuts_no_rows_that_a_commit_still_reads",
    ),
    Plant.of(
        "an epoch makes entries durable",
        f"{_STORE}/replication/log.py",
        "    own = log.durable.get(log.pod, _FIRST)\n",
        "    own = log.end\n",
        f"{_DURABILITY}::test_an_entry_that_no_sync_covered_is_not_acknowledged_by_a_new_epoch",
    ),
    Plant.of(
        "a damaged partition ends its pod",
        f"{_STORE}/replicas/assigned_replicas.py",
        "            if not (was_here or is_learner or is_damage):\n                raise\n",
        "            raise\n",
        f"{_DAMAGE}::test_a_damaged_block_loses_only_its_partition",
    ),
    Plant.of(
        "a damaged database without a kept assignment refuses each assignment",
        f"{_STORE}/replicas/assigned_replicas.py",
        "is_damage = has_files and type(error) is CorruptionError\n",
        "is_damage = False\n",
        f"{_AT_START}::test_without_a_kept_assignment_damaged_files_lose_their_partition_alone",
    ),
    Plant.of(
        "a full volume hides what is whole",
        f"{_STORE}/replicas/apply/replica_recovery.py",
        "(() if found.is_commit_unfinished else (RecoveryStep.SHOW_STATE,))",
        "()",
        f"{_DAMAGE}::test_a_restart_on_a_full_volume_serves_whole_partitions[1]",
    ),
    Plant.of(
        "a pod that lost a partition hears of no epoch",
        "operator/qss_operator/planning/missing_data.py",
        "        held |= {one.partition for one in report.lost}\n",
        "",
        "tests/unit/qss_operator/planning/test_losses.py"
        "::test_a_pod_that_lost_a_partition_hears_of_the_partitions_next_epoch",
    ),
    Plant.of(
        "a pod takes the assignment of a deleted store",
        f"{_STORE}/replicas/opening/assignment_checks.py",
        '    if resource_uid and assignment.resource_uid not in ("", resource_uid):\n',
        "    if False:\n",
        "tests/unit/qss_store/replicas/test_assignment_checks.py"
        "::test_an_assignment_of_a_deleted_store_of_the_same_name_is_refused",
    ),
    Plant.of(
        "the migration rests for minutes",
        f"{_STORE}/replicas/migration_pacing.py",
        "min(step_s, _STEP_MAX_S) * ",
        "step_s * ",
        "tests/unit/qss_store/replicas/test_migration_pacing.py",
    ),
    Plant.of(
        "a full volume takes a new partition",
        f"{_STORE}/replicas/opening/open_database.py",
        "            if begins:\n",
        "            if False:\n",
        f"{_DAMAGE}::test_a_full_volume_takes_no_new_partition_that_a_restart_would_miss",
    ),
    Plant.of(
        "a format that is not taken leaves families behind",
        f"{_STORE}/replicas/pod.py",
        "        finally:  # A definition that was prepared and not taken leaves empty"
        " families.\n            self.rows_to_move.set()\n",
        "        except RecursionError:\n            pass\n"
        "        else:\n            self.rows_to_move.set()\n",
        f"{_DAMAGE}::test_a_format_change_that_a_full_volume_refuses_is_not_reported_as_a_migration",
    ),
    Plant.of(
        "a run of a deleted store writes into the new one",
        f"{_STORE}/replicas/registry.py",
        "        if named != held:\n",
        "        if False:\n",
        "tests/integration/writes/test_writes_other_store.py"
        "::test_a_request_of_the_old_stores_run_is_refused",
    ),
    Plant.of(
        "a batch is decided on a volume that went back",
        f"{_STORE}/writes/participant_service.py",
        "            if request.sequence is not None:\n",
        "            if False:\n",
        f"{_ROLLED_BACK}::test_no_batch_is_decided_on_a_volume_that_went_back",
    ),
    Plant.of(
        "an older copy is served as the data",
        f"{_STORE}/replicas/rollback_check.py",
        "        if missing is not None:\n            raise",
        "        if False:\n            raise",
        f"{_ROLLED_BACK}::test_a_volume_that_went_back_is_reported_when_its_pod_starts",
    ),
    Plant.of(
        "older files are marked as the data",
        f"{_STORE}/replicas/volume/sync_marks.py",
        "                if partition not in self._renewed"
        " and not self._is_the_data(replica):\n"
        "                    continue\n",
        "",
        f"{_ROLLED_BACK}::test_newer_files_are_accepted_after_the_older_files_took_an_epoch",
    ),
    Plant.of(
        "another batch of a sequence is taken for the applied one",
        f"{_STORE}/transactions/participant.py",
        "            self._check_same(commit)\n",
        "",
        "tests/unit/qss_store/transactions/test_losses.py"
        "::test_another_batch_at_the_last_applied_sequence_is_refused",
    ),
    Plant(
        "a shortened write-ahead log is served",
        (
            Change(
                f"{_STORE}/replicas/opening/open_database.py",
                "        mark = self.marks.get(partition) if was_here else None\n",
                "        mark = None\n",
            ),
            Change(
                f"{_STORE}/replicas/opening/open_database.py",
                "        mark = self.marks.get(replica.partition)\n",
                "        mark = None\n",
            ),
        ),
        f"{_DAMAGE}::test_a_write_ahead_log_that_lost_synced_rows_is_damage",
    ),
    Plant.of(
        "a batch is dated before the one that it follows",
        f"{_STORE}/transactions/coordinator.py",
        "        return max(now_ms, last_ms, self.lost_time_ms)\n",
        "        return now_ms\n",
        f"{_DURABILITY}::test_a_batch_is_never_dated_before_the_previous_batch",
    ),
    Plant.of(
        "a log is cut by a few entries a round",
        f"{_STORE}/replicas/changelog/changelog.py",
        "        return self.retention.is_cut_owed\n",
        "        self.retention.is_cut_owed = False\n        return False\n",
        f"{_DURABILITY}::test_a_log_of_many_small_entries_is_cut_to_its_retention",
    ),
    Plant.of(
        "an edited retention reaches no replica that runs",
        f"{_STORE}/replicas/opening/take_assignment.py",
        "    replica.apply_loop.settings = settings\n",
        "",
        f"{_DURABILITY}::test_an_edited_retention_reaches_a_replica_that_runs",
    ),
    Plant.of(
        "an active keeps a snapshot that nobody reads",
        f"{_STORE}/writes/sweeper.py",
        "        await self._snapshots.forget_unread()\n",
        "",
        "tests/integration/replicas/test_learner_snapshots.py"
        "::test_a_snapshot_that_nobody_reads_any_more_is_deleted",
    ),
    Plant.of(
        "a repeat is logged again",
        f"{_STORE}/replicas/apply/pending_entries.py",
        "        pending = None if name is None else self._by_name.get(name)\n",
        "        pending = None\n",
        f"{_DURABILITY}::test_a_slice_that_is_sent_again_while_it_is_logged_is_logged_once",
    ),
    Plant.of(
        "an empty volume is filled as the status says",
        "operator/qss_operator/planning/assignment_state.py",
        "    if any(_has_entries(report) for report in _own_reports(observation)):\n",
        "    if False:\n",
        "tests/unit/qss_operator/planning/test_disk_claims.py::"
        "test_an_empty_volume_is_not_filled_once_a_pod_holds_entries_whatever_the_status_says",
    ),
    Plant.of(
        "a take-over drops what others have read",
        f"{_STORE}/transactions/inputs.py",
        "        return mine.difference(*(self.by_writer[other] for other in others))\n",
        "        return mine\n",
        "tests/unit/qss_store/transactions/test_inputs.py::test_a_take_over_keeps_what_another_writer_has_read",
    ),
    Plant.of(
        "a count is of rows that are not shown",
        f"{_STORE}/replicas/views/view_maker.py",
        "        return self.families.approximate_count(self._engine, self.view.stream",
        "        after = ColumnFamilies.of(self.definition, self._generation + 1)\n"
        "        return after.approximate_count(self._engine, self.view.stream",
        "tests/integration/writes/test_writes_rules.py"
        "::test_a_count_covers_the_visible_rows_while_a_replacing_commit_waits",
    ),
    Plant.of(
        "the run of a batch job is closed while its tasks compute",
        "spark-jobs/qss_spark/sink/kept_open.py",
        "    if not batch.one_off:\n",
        "    if True:\n",
        "tests/unit/qss_spark/sink/test_kept_open.py",
    ),
    Plant.of(
        "a query's run is not renewed any more after a store was away",
        "spark-jobs/qss_spark/sink/kept_open.py",
        "    except (StaleWriterError, UnknownWriterError) as error:\n",
        "    except StoreError as error:\n",
        "tests/unit/qss_spark/sink/test_kept_open.py",
    ),
    Plant.of(
        "the runs of a mirror are closed while a store gets a large state",
        "spark-jobs/qss_spark/mirroring/copies/state_copies.py",
        "            one.meanwhile = self._keep_open\n",
        "            pass\n",
        "tests/integration/mirror/test_mirror_stores.py"
        "::test_the_runs_of_all_stores_are_kept_open_while_one_gets_a_large_state",
    ),
    Plant.of(
        "the reports of many rounds count as those of one",
        "operator/qss_operator/pod_answers.py",
        "        self._newest.pop(pod, None)\n",
        "        self._newest[object()] = self._newest.pop(pod, 0)\n",
        "tests/integration/operator/test_rogue_pods.py",
    ),
    Plant.of(
        "a partition waits for a lost pod on which its active is wanted",
        "operator/qss_operator/planning/membership/pins.py",
        "pod < spec.replicas and pod not in replaced\n",
        "pod < spec.replicas\n",
        "tests/unit/qss_operator/planning/test_replacement.py",
    ),
    Plant.of(
        "a new local pod gets the ports of one that starts",
        "operator/qss_operator/local/cluster.py",
        "            taken=[*own, *self._ports_of_others(store)],\n",
        "            taken=self._ports_of_others(store),\n",
        "tests/unit/qss_operator/local/test_local_restarts.py",
    ),
)


def plant(one: Plant, directory: Path) -> list[Path]:
    """Copies the code with the fix taken out; returns the directories for the import path.

    Raises AssertionError unless the lines of the fix are there exactly once.
    """
    places = []
    for top in sorted({Path(change.file).parts[0] for change in one.changes}):
        copy = directory / top
        shutil.copytree(ROOT / top, copy, ignore=shutil.ignore_patterns("__pycache__", "tests"))
        places.append(copy)
    for change in one.changes:
        file = directory / change.file
        text = file.read_text()
        assert text.count(change.mended) == 1, (
            f"{one.name}: {change.file} has not {change.mended!r}"
        )
        file.write_text(text.replace(change.mended, change.planted))
    return places


def is_found(one: Plant, directory: Path) -> bool:
    """Whether the bug's test fails with the fix taken out."""
    path = [str(place) for place in plant(one, directory)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path)}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", one.test]
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return True  # The test waits for an event that the bug prevents.
    assert done.returncode in (0, 1), done.stdout.decode() + done.stderr.decode()
    return done.returncode == 1


def run(plants: Iterable[Plant]) -> None:
    """Takes each fix out in turn; exits with 1 if a test does not notice one.

    Words on the command line choose the plants that have them in their names.
    """
    words, missed = " ".join(sys.argv[1:]), []
    for one in plants:
        if words not in one.name:
            continue
        with tempfile.TemporaryDirectory() as directory:
            found = is_found(one, Path(directory))
        print(f"{'found ' if found else 'MISSED'}  {one.name}", flush=True)  # noqa: T201
        missed += [] if found else [one.name]
    raise SystemExit(bool(missed))


if __name__ == "__main__":
    run(PLANTS)
