"""Benchmarks: each figure is a ratio to a baseline of the same run (`make bench`).

A slow or busy machine changes a figure and its baseline alike, so ratios are compared and seconds
are not. `__main__` runs the parts that its arguments name, by default all: `reads`, `scans`,
`migrating`, `ingest`, `recovery`, `standbys`, `availability`, `learner`, `planner`, `spark`,
`storage` and `spark_tables`. Each part returns `report.Figure`s with their targets; `report` prints
the table and writes `.bench/results.json`.
RESULTS.md has the figures of past runs, and the reasons where one misses its target.

`loads` has the rows, the load of GETs and the bare server that the parts share. `control` has
the parts of the control plane; its `operator_at_rest` is no part of `make bench`: it needs a real
API server.
"""
