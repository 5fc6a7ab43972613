"""Rules of readers, of stores and of files, each with a test that must fail without it.

`python -m qss_testing.plants.planted_reads` takes each of them out, as `make planted` does. The
simulation does not plant them: its readers have no client, and read no pages by time and no file.
"""

from qss_testing.plants.planted import Plant, run

_CLIENT = "store-pod/qss_client"
_SESSION = "tests/unit/qss_client/reads/test_session.py"
_RUNS = "tests/unit/qss_client/reads/test_sync_session.py"
_SCANS = "store-pod/qss_store/reads"
_ABSENT = "        state.saw_token(error.details.get(POSITION_HEADER))\n        return "

READ_PLANTS = (
    Plant.of(
        "a pod makes the row keys of another pod's rows from what they show",
        f"{_SCANS}/encode/rows_for_pods.py",
        "            if not is_given_back:\n",
        "            if False:\n",
        "tests/unit/qss_store/reads/test_rows_for_pods.py"
        "::test_the_row_keys_of_any_rows_are_found_again",
    ),
    Plant.of(
        "a broken stream of another pod continues in an older state",
        f"{_SCANS}/scans/sources.py",
        "        sequence = max(self._start.sequence, told)\n",
        "        sequence = self._start.sequence\n",
        "tests/unit/qss_store/reads/test_rows_for_pods.py"
        "::test_a_broken_stream_continues_behind_its_last_row_in_no_older_state",
    ),
    Plant.of(
        "older pods refuse each first page by time of chosen partitions",
        f"{_SCANS}/scans/cursors.py",
        " and any(piece.last_key is not None for piece in left):",
        ":",
        "tests/unit/qss_store/reads/test_cursors.py"
        "::test_a_first_page_by_time_has_a_cursor_that_older_pods_read",
    ),
    Plant.of(
        "a request behind its bound is not asked again where no pod tells routes",
        f"{_CLIENT}/reads/sync_session.py",
        "            if is_behind:\n",
        "            if False:\n",
        f"{_RUNS}::test_a_request_behind_its_bound_is_asked_again_where_no_pod_tells_routes",
    ),
    Plant.of(
        "a late answer of a store that was made again is taken",
        f"{_CLIENT}/reads/sync_session.py",
        "                if self.state.store_id == asked_of:\n",
        "                if True:\n",
        f"{_RUNS}::test_a_late_answer_of_a_store_that_was_made_again_is_not_taken",
    ),
    Plant.of(
        "late metadata of a store that was made again are taken",
        f"{_CLIENT}/reads/session.py",
        "                if self.store_id != asked_of:\n",
        "                if False:\n",
        f"{_RUNS}::test_late_metadata_of_a_store_that_was_made_again_are_not_taken",
    ),
    Plant.of(
        "of the answers of two threads the older position stays",
        f"{_CLIENT}/reads/session.py",
        "        with self.turn:\n            merged",
        "        if self.turn:\n            merged",
        f"{_SESSION}::test_the_answers_of_two_threads_are_merged_one_after_the_other",
    ),
    Plant.of(
        "an absent key has no position",
        f"{_CLIENT}/reads/calls.py",
        f"{_ABSENT}None\n",
        "        return None\n",
        f"{_SESSION}::test_the_position_of_a_state_without_the_key_bounds_the_next_requests",
    ),
    Plant.of(
        "a key that is followed is gone without a position",
        f"{_CLIENT}/reads/calls.py",
        f"{_ABSENT}NewerRow(None, None)\n",
        "        return NewerRow(None, None)\n",
        f"{_SESSION}::test_the_position_of_a_state_without_the_key_bounds_the_next_requests",
    ),
    Plant.of(
        "the position of a deleted store bounds reads of the next one",
        f"{_CLIENT}/reads/session.py",
        "            self.position = Position.empty()\n",
        "            pass\n",
        f"{_SESSION}::test_the_position_of_a_store_that_was_deleted_bounds_no_request",
    ),
    Plant.of(
        "nobody looks for another store where a pod stays behind",
        f"{_CLIENT}/http/retries.py",
        "refresh or is_behind)\n",
        "refresh)\n",
        "tests/unit/qss_client/http/test_retries.py"
        "::test_routes_are_refreshed_once_where_a_pod_stays_behind",
    ),
    Plant.of(
        "a page by time ends between rows of one key in several partitions",
        f"{_SCANS}/scans/cursors.py",
        "    return is_by_time and codec.partitioner is Partitioner.EXPLICIT\n",
        "    return False\n",
        "tests/integration/reads/test_queries_by_time.py"
        "::test_rows_of_a_window_and_a_key_in_several_partitions_are_all_paged",
    ),
    Plant.of(
        "a file is loaded without the values of lines behind a first one without any",
        f"{_CLIENT}/cli/load/row_encoder.py",
        "        if self._late and ",
        "        if False and ",
        "tests/unit/qss_client/cli/load/test_row_encoder.py"
        "::test_a_line_with_a_value_or_a_time_that_the_first_line_lacks_is_refused",
    ),
)


if __name__ == "__main__":
    run(READ_PLANTS)
