"""Tools of the benchmarks: rows, a load of GETs, and a bare server for comparison.

`rows` makes the rows, and writes them into a store as a writer does. `load` sends GETs from this
process, and measures their latencies and the CPU time of the server's process. `bare` is the
server of the baseline: the least that a Python process can do to answer the same GETs, with the
same `get` of rocksdict and without a store around it.

A benchmark runs the same load against a pod and against the bare server, and reports the ratio.
"""
