"""What the tests share: real pods with their clients and writers, fakes, faults, and references.

Take `pods.stores` for pods in this process that are read, `pods.write_cluster` for pods that
are written to over the internal port, `pods.pod_process` for pods as processes that a test
kills, and `pods.one_pod` for one pod whose process may end at any of its writes. `clients` ask,
`writers` write, `faults` break something at a chosen moment, `fakes` stand in for clocks, API
servers and clusters, and `reference` knows the right answer. `waiting` is the one way to wait.
"""
