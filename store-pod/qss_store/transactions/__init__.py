"""The rules of batches over many partitions (docs/batches.md). Pure: no network, no disk.

Each partition is a state machine over the entries of its changelog:

1. A service of `writes` checks a request by the rules here, and appends a command. `commands`
   encodes commands as the bodies of entries. `position_limits` limits the position of a commit.
2. `machine` plans each entry in order, once the entry is under the high watermark. It checks the
   same rules again: only this second check decides, and its result is equal on every replica.
3. `participant` has the batches of the partition: which slices are staged (`staged`), which batch
   is prepared, which sequence is applied. `coordinator`, in partition 0 alone, has the decisions,
   and the store's writers (`writers`).
4. For a commit the plan says which slices become visible (`commit_plan`), and the position after
   it: `inputs` knows which components each writer has set, `batch_positions` adds the components
   that name the batch. `losses` computes the state after a person accepted lost batches.
5. The replica writes the plan: its rows, and the changed state as rows of the meta family
   (`state_rows`). Then it has `machine` advance. Until then readers see the state before.

Equal entries in equal order give equal states, on any pod, after any restart. So nothing here reads
a clock, a file or a random number: an entry carries its own wall time.
"""
