"""Tools of the tests: real pods with clients and writers, fakes, faults, and references.

Use `pods.stores` for pods in this process that are read, `pods.write_cluster` for pods that are
written over the internal port, `pods.pod_process` for pods as processes that a test kills, and
`pods.one_pod` for one pod whose process may end at any write. `clients` send requests, `writers`
write, `faults` make something fail at a chosen moment, `fakes` replace clocks, API servers and
clusters, and `reference` computes the expected answers. `plants` puts known bugs back.

A test of answers usually goes this way: a fixture of `tests/integration/conftest.py` starts the
pods, a writer fills the store, a client asks, and a reference says what the answer has to be.

Tests wait by `waiting` only: it asks again until a condition holds, with a deadline, and never
sleeps for a fixed time. `kinds` has the kinds of Kubernetes objects that only tests use,
`row_bytes` encodes and decodes the bytes of a row, `any_rows` draws rows of any store for
hypothesis, and `memory_engine` keeps a database in memory.

Take a real pod before a fake: `pods.stores` starts in milliseconds. A fake has the methods of a
port of the product, such as `Cluster`, and stands for what the port reaches.

`qss_simulation`, `qss_faults` and `qss_bench` use this package, and no product code may.
`tests/docs/helpers.md` names each module by the question that a test has; `test_tidy.py` checks
that.
"""
