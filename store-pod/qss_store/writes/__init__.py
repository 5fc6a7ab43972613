"""Batches: from a writer's request to rows that every partition has applied.

1. `participant_service` stages slices: it checks the rows (`row_validation`) and appends them
   to the changelogs of this pod's partitions.
2. `coordinator_service` runs where partition 0's active is. It opens writers and decides
   batches: it checks the request (`commit_checks`), asks all participants to prepare
   (`participant_client`) and appends the decision to partition 0's changelog. From then on the
   batch is decided for good.
3. `commit_driver` sends the decision to all partitions until all have applied it, then appends
   that the batch is complete. It needs no writer, and continues after a restart of the pod.
4. `writer_registry` lists the writers for a person, closes silent runs and deletes writers.
   `coordinator_tasks` finishes a commit whose client has gone.

`sweeper` runs on timers: it aborts batches that were never decided, cuts changelogs and forgets old
writers. `sequence_comparison` compares the sequences of all partitions, so that the pod reports a
volume that went back to an older state, and does not serve it. `loss_acceptance` continues a
partition without its lost batches after a person accepted the loss. `pod_services` composes a pod
of all of these. The rules themselves are pure and in `transactions`.
"""
