"""Lets at most one operator act at a time, and tells the kubelet whether the process works.

1. `program` enters `lease.Leadership.held`. It looks at the Lease until the rules of `lease_rules`
   let it take the Lease: it is missing or free, or its holder was silent for the whole duration (15
   s), measured by this process's own clock alone.
2. Inside, a task of `lease` renews it every 2 s. `program` starts `watchdog`, the watches and the
   loops. Each round of a store asks `Leadership.is_held` before it begins.
3. A holder may act for 10 s, counted from before it sent the last successful renewal. Then, or when
   the Lease was deleted or taken, `on_lost` ends the process at once by `os._exit`, without another
   write. `watchdog` is a thread which does the same if the event loop stands still for a second
   more. The 5 s between the two limits are the time in which the process has to end.
4. After a signal the stores' loops stop first. Only then the Lease is released, so that a successor
   need not wait.

A write that was sent before the end may reach the API server after it: so writes that matter carry
a resource version, and the lease alone does not protect them. A process's identity is new with each
start: a restarted container waits for its own old lease.

`health` is apart from the Lease. Watches, rounds and loops report to it; `/livez` fails if a round,
a watch or the event loop is stuck. An operator without the lease is healthy and ready, too. Tests:
`test_lease`, `test_lease_rules`, `test_watchdog` and `test_health` (unit).
"""
