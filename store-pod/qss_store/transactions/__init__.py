"""Batches over many partitions (docs/batches.md): what is decided, never how it travels. Pure.

`commands` is what changelog entries say. `machine` is the state machine of one partition: it plans
what each entry does, in order, and advances when the replica has written that. `participant` knows
the partition's batches and staged slices (`staged`), `coordinator`, in partition 0 alone, the
writers (`writers`) and the decisions. `commit_plan` is what a commit does to rows and state.
`inputs` and `batch_positions` compute positions, `position_limits` bounds them, and `losses` says
how a partition goes on without batches that it lost. `state_rows` are the bytes of all that in the
meta family.

Equal entries in equal order give equal states, on any pod, after any restart. So nothing here
reads a clock, a file or a random number.
"""
