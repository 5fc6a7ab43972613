"""Clients of stores: plain HTTP, both Python clients, `qss`, and the fuzz of the fast path.

`http` sends a request as the test writes it, and returns the whole answer: take it for paths,
parameters and problem documents. `packets` also chooses the packets in which a request arrives.
`clients` has one interface to `Store` and `AsyncStore`, so that one test covers both.

`terminal` runs a command of `qss` in this process against one store. `qss_command` runs `qss` as a
child process over a state directory: take it for `qss up`, `qss down` and signals.

`fast_path_requests` makes random plans of requests with their expected answers, and
`fast_path_fuzz` sends a plan in several pieces and ways, whose answers must be equal.
`counted_fast_path` counts which requests the fast path answered.

Inside of a pod's process, `readings` reads the states of its replicas as a request does, and
`near_peers` carries messages between replicas of pods without an internal port.
"""
