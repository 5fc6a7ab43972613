"""Posts events about stores, which people see with `kubectl describe`.

1. `status_events` compares a published status with the one before. Each change of Ready or
   Degraded, in status or reason, is an event, and so is a scale-down that begins or is held up.
   `change_events` makes the events of a changed assignment: failovers, handovers, moves, replicas
   that leave the in-sync set, come back, or are removed. Objects that are made, changed or refused
   have events, too: `objects.children_apply` tells `store_loop` of them.
2. `store_loop` gives events to `poster`, which puts them into a queue of 256 and returns at once.
   If the queue is full, the event is dropped.
3. A task of `poster` takes them from the queue. `event_limits` says whether an event repeats one
   of the last ten minutes: then the object at the API server gets a higher count. `event_limits`
   also limits events to ten a minute for each store, and makes the bodies.

Nothing waits for an event, and no failure to post is raised: the first failure in a row is a
warning in the log, the others are debug lines. The memory of repetitions is bounded and ends with
the process: its successor makes new events. At the end of the process queued events are lost.
Decisions are never made from events of this package; the status has everything.

`poster` cuts long messages to the API server's limit. A reason has to be CamelCase, or an assertion
fails. The package imports `api`, `times`, and of `planning` only `model`, `membership.changes` and
`findings.rebalancing`. Tests: `test_events`, `test_status_events` and `test_change_events` (unit),
`test_store_told` (integration).
"""
