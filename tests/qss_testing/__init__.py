"""Tools of the tests: real pods with clients and writers, fakes, faults, and references.

Use `pods.stores` for pods in this process that are read, `pods.write_cluster` for pods that are
written over the internal port, `pods.pod_process` for pods as processes that a test kills, and
`pods.one_pod` for one pod whose process may end at any write. `clients` send requests, `writers`
write, `faults` make something fail at a chosen moment, `fakes` replace clocks, API servers and
clusters, and `reference` computes the expected answers. Tests wait by `waiting` only.
"""
