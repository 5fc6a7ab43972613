"""Hostile callers of all kinds against one pod, and the bounds that must hold (`make siege`).

`siege` starts one pod with TLS and checked callers within its default memory limit, where this
machine allows a memory control group (`memory_group`). It starts a `hostile_program` for each kind
of `hostile`, and one `good_program`: clients that read small values as if nothing happened.
`target` has the addresses, certificates and tokens that both need.

`witnesses` measures the pod meanwhile: memory, open files, probes, partitions, and the batches of a
writer. `figures` compares the measurements with the bounds: memory and open files stay in their
limits, probes, good clients and the writer are served, and no request gets a 500. `__main__` prints
the figures and ends with exit code 1 if a bound is exceeded.
"""
