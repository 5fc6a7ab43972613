"""Known bugs that can be put back, to see that a test finds each of them.

1. A `Plant` names a bug by its effect. It has the lines of the mend, the lines in their place, and
   the test that must fail then. `planted` has bugs of all programs, and the code that uses plants.
2. `planted.plant` copies the code into a directory with the mend taken out. It raises unless the
   lines are there exactly once: so a change of a planted line needs a change of its plant.
3. `planted.run` runs the named test over that copy. A test that fails, or hangs, has found the bug;
   one that passes is printed as MISSED, and the command ends with 1.

`make planted` does this for `planted`, `planted_standbys` (rules of standbys), `planted_damage`
(damaged blocks and volumes), `planted_volumes` (volumes and copies), `planted_reads` (readers),
`planted_jobs` (jobs and certificates), `planted_unlike` (replicas with other rows, or not opened),
and `planted_fast_path` (the fast path, found by its fuzz).
`planted_batches` and `planted_replicas` have rules without a test of their own:
`make simulate PLANTED=1` takes them out, and those of `planted` and `planted_standbys`, too, and
says which seed or scenario finds each.

A hang of two minutes counts as found, since a test may wait for an event that the bug prevents. Any
other end of pytest than success or a failed test is an assertion: the plant names no test, or the
code does not load.

`tests/unit/test_planted.py` plants each of them without running its test, and fails when planted
lines have changed. `qss_simulation.planted` is the only other user.
"""
