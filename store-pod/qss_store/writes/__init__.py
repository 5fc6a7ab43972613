"""Batches: from a writer's request to rows that every partition has applied.

1. `participant_service` stages slices: it checks the rows (`row_validation`) and appends them
   to the changelogs of this pod's partitions.
2. `coordinator_service` runs where partition 0's active is. It opens writers and decides
   batches: it checks the request (`commit_checks`), asks all participants to prepare
   (`participant_client`) and appends the decision to partition 0's changelog. From then on the
   batch is decided for good.
3. `commit_driver` drives the decision until every partition has applied it, then appends that
   the batch is complete. It goes on after a restart of the pod; no writer is needed.
4. `writer_registry` tells a person which writers there are, and forgets one. `under_way` goes
   on with a commit whose client has gone.

`sweeper` runs on timers: it aborts what nobody decided, cuts changelogs and forgets old writers.
`sequence_comparison` compares the sequences of all partitions, so that a volume that went back is
told instead of served, and `loss_acceptance` goes on without the lost batches where a person said
so. `pod_services` composes a pod of all of these. The rules themselves are pure and lie in
`transactions`.
"""
