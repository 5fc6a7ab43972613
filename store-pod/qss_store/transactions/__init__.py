"""Batches over many partitions (transactions.md): what is decided, never how it travels. Pure.

`machine` is the state machine of one partition: it takes changelog entries in order and says
what each one did. `participant` knows the partition's batches and staged slices (`staged`),
`coordinator`, in partition 0 alone, the writers (`writers`) and the decisions. `commit_plan` is
what a commit does to rows and state. `inputs` and `batch_positions` compute positions,
`position_limits` bounds them, and `losses` says how a partition goes on without batches that it
lost. `participant_state` and `coordinator_state` are the bytes in the meta family.

Equal entries in equal order give equal states, on any pod, after any restart. So nothing here
reads a clock, a file or a random number.
"""
