"""Changes the configurations of partitions: their epochs, and who is in sync.

`epochs` makes the next configuration of a partition where a report asks for it: an active that has
started again gets a new epoch, a standby that is silent or lost leaves the in-sync set, a learner
that has caught up joins it. `failover` chooses the standby that takes over from an active which
cannot act, `moves` brings replicas and actives to where the spec wants them (`pins` to where a
person wants them), `retirements` finds replicas that are no longer needed, and `creation` finds
volumes that are not to be filled. A change takes one epoch, and is published before any pod hears
of it.
"""
