"""The rules of batches over many partitions (docs/batches.md). Pure: no network, no disk.

`commands` encodes the commands of changelog entries. `machine` is the state machine of one
partition: it plans each entry in order, and advances after the replica has written the plan.
`participant` has the partition's batches, `staged` its staged slices. `coordinator`, in partition 0
alone, has the decisions, and `writers` the writers. `commit_plan` describes how the replica applies
a commit. `inputs` and `batch_positions` compute positions, `position_limits` limits their size.
`losses` records the batches that a partition lost. `state_rows` encodes the state as rows of the
meta family.

Equal entries in equal order give equal states, on any pod, after any restart. So nothing here
reads a clock, a file or a random number.
"""
