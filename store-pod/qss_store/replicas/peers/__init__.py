"""The other replicas of a partition, seen from one of its replicas.

`follower_progress` is the active's side: from which entry on each follower gets the log, and which
of them have to be made anew. `active_service` says when an active may act. `follower_service` is a
follower's side: it takes the active's epoch and entries into its own log. `freshness` tells how
long ago a follower was level with its active, and `send_signal` wakes the senders of the pod
(`replicas.sending`). The rules are those of `replication.active` and `replication.follower`.

Before it sends entries to a follower in an epoch, an active asks for its hello: the follower's
answer names its database, and says that it has taken the epoch durably. An active sends nothing
before its own disk keeps the epoch. After a failure or a refusal it asks for the hello again, and
sends on from the last entry that the follower acknowledged.
"""
