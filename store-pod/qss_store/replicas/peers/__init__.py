"""The other replicas of a partition, seen from one of its replicas.

`replication` has the rules; a `replica` owns one object of each class here:

1. `epoch_service` takes a new configuration, and makes the epoch of an active durable.
   `active_service` lets the active act once the older one has stopped or its lease has run out. An
   active that started again asks for a new epoch before it acts.
2. `follower_progress` is the active's side: from which entry on each follower gets the log, and
   which followers have to be made anew. Before it sends entries to a follower in an epoch, it asks
   for its hello: the answer names the database, and says that the follower keeps the epoch durably.
   After a failure it asks for the hello again, and sends on from the last acknowledged entry.
   `learner_progress` tells a learner to copy the database, and when it may be asked for as a
   standby. Both keep what they know of an epoch in `epoch_followers`, by `follower_state`.
3. `follower_service` is a follower's side: it takes the active's epoch and entries into its own
   log, and acknowledges durable entries. With that it supports this active alone for the lease.
4. `follower_progress` takes acknowledgements, by which the high watermark rises.

An active sends nothing before its own disk keeps the epoch. A replica that is opened again keeps
the promises of its follower: the pod holds them.

`freshness` tells how long ago a follower was level with its active. `send_signal` wakes the senders
of the pod (`replicas.transfer`), which this package does not import. `unlike_alarm` keeps, in the
database, that other replicas have other rows.

Tests: `test_freshness` (unit), `test_follower_replica`, `test_standbys`, `test_standbys_failures`,
`test_comparison_waits` (integration), and `tests/simulation`.
"""
