"""Tools of the benchmarks: rows, a load of GETs, and a bare server for comparison.

1. `rows` makes the rows: keys of 16 bytes by a seed, and values that do not compress. `rows.load`
   writes them into a store as a writer does, with a `Loader` that goes on with further batches.
2. `load.run_load` sends GETs from this process, over some connections with one request under way in
   each. It measures the latencies, and the CPU time of the server's process from `/proc`.
3. `bare` is the server of the baseline: the least that a Python process can do to answer the same
   GETs, with the same `get` of rocksdict and without a store around it. It runs as a process.

A benchmark runs the same load against a pod and against the bare server, and reports the ratio: a
slow or busy machine changes both alike. Take `Load.per_cpu_second` for a ratio; other work on the
machine changes `per_second`.

The load has no warm-up of its own but 0.3 s, whose latencies are dropped. An answer other than 200
is an assertion: a benchmark of failures measures nothing. `bare` has the pod's bloom filter, and a
cache of a fixed size; a change of the pod's options belongs there, too.

The parts of `qss_bench` use these modules, and nothing else does; they import no part. They have no
tests of their own: `make bench` runs them.
"""
