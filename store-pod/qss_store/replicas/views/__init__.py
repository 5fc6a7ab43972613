"""The states that readers of one replica get.

1. After each commit the apply loop calls `view_maker`. It takes a view of the families of the
   present data generation, and makes a `ReadView` with position, sequence and stream time.
2. `current_view` publishes the view, closes the one before, and wakes the requests that wait for a
   batch. Readers get it by `reads.routing.admission`.
3. For a reader of uncommitted rows, `uncommitted` puts staged rows over that view. It places them
   in memory as their commit would place them, once for each state, and adds later chunks to them.
4. `uncommitted_memory` limits the memory of the pod for these rows: if they exceed it, the replica
   that was read longest ago releases its rows, which can be made again.

A commit closes the view that readers had: a reader takes its rows, or an iterator, before it waits
for anything. `view_maker.show_again` publishes the same state after rows moved between families;
the state machine may already be ahead of it, in a commit that is not complete.

`decoded_rows` is apart: it keeps the decoded rows of recently staged small chunks, so that their
commit decodes nothing. It is a cache with a limit; rows that it lacks come from the changelog.

The package imports storage and `transactions`, and nothing of `replicas`; `apply`, `replica` and
`format_change` use it. Tests: `test_current_view`, `test_decoded_rows`, `test_uncommitted_memory`
(unit), `test_uncommitted` and `test_uncommitted_model` (integration).
"""
