"""Measures `qss mirror` beside a running query, and kills everything while it copies.

`figures` and `kills` are commands, which need Spark and some minutes: they are no part of `make
bench`. Both run the query of `query`, a program of its own, so that its processor time is known and
it can be killed; `side` has the input, the processes and their times.

1. `python -m qss_bench.mirrored.figures` measures how far a store is behind Spark's commit for 200,
   5 000 and 100 000 changed keys, the processor time of the mirror against that of the query, the
   query's own batches with and without a mirror, and the first copy of a million rows against
   Spark's own reader.
2. `python -m qss_bench.mirrored.kills` runs 1 000 batches, kills the query, the mirror or a pod 50
   times, and compares every row with Spark's own reader at the end. The seed chooses what is killed
   and when.

The figures stand in `tests/qss_bench/RESULTS.md`. They are ratios of one run where they can be; the
lag is an absolute time, and is true for a quiet machine only.
"""
