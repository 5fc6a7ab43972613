"""Hostile callers of all kinds against one pod, and the bounds that must hold (`make siege`).

1. `siege` starts one pod with TLS and checked callers within its default memory limit, where this
   machine allows a memory control group (`memory_group`).
2. It starts a `hostile_program` for each kind of `hostile`, and one `good_program`: clients that
   read small values as if nothing happened. `target` has the addresses, certificates and tokens
   that both need.
3. `witnesses` measures the pod meanwhile: memory, open files, probes, partitions, and the batches
   of a writer.
4. Each program prints its results as a line of JSON: a hostile one at its end, the good one
   when it is asked to, so that the time before the siege can be compared with the siege.
   `siege` collects these lines and the measurements in an `Outcome`.
5. `figures` compares these with the bounds: memory and open files stay in their limits, probes,
   good clients and the writer are served, and no request gets a 500.
6. `__main__` prints the figures and ends with exit code 1 if a bound is exceeded.
"""
