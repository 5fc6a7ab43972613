"""The writer's half of the client.

`exchanges` holds the protocol of a batch (open, stage, commit, abort, renew) without any I/O: an
exchange yields `steps`, which a shell carries out, and `routes` says which pod a step asks. `batch`
is the shell for programs without an event loop: it sends the requests, waits and warns. `writers`
lists the writers of a store, and deletes one.
"""
