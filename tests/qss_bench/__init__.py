"""Benchmarks: each figure is a ratio to a baseline of the same run (`make bench`).

A slow or busy machine changes a figure and its baseline alike, so ratios are compared and seconds
are not. `__main__` runs the parts that its arguments name, by default all. Each part gets an empty
directory and returns `report.Figure`s with their targets:

* reads of a pod: `reads`, `scans`, and `migrating` while rows change their format;
* writes of a pod: `ingest`;
* one pod as a process: `pod.recovery` after `kill -9`, and `pod.memory` under all of these;
* several pods: `standbys`, `availability` while partitions change hands, `learner` during a copy;
* Spark: `spark` for micro-batches, `spark_tables` for large DataFrames;
* `storage` for the bytes of a row, and `control.planner` for the planner.

`report` prints the table and writes `.bench/results.json`. RESULTS.md has the figures of past runs,
and the reasons where one misses its target.

`loads` has the rows, the load of GETs and the bare server that the parts share. `control` has the
parts of the control plane; its `operator_at_rest` is no part of `make bench`: it needs a real API
server. `mirrored` measures `qss mirror` beside a query, and kills all of it: commands of their own.
`peers` runs what users would pick in a store's place beside it: `make bench-peers`.
"""
