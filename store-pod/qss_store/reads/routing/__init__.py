"""Chooses the replica that answers a read, and asks it.

1. `replica_router` orders the replicas of each partition: this pod's own, then the active, then the
   other in-sync ones, those that were silent a moment ago last. With `requireActive` only the
   active counts, and with scope `local` only this pod.
2. For one partition the reader of `reads` takes the first. For many at once, `scatter` asks all
   pods, one request per pod and round, and goes on with the next replica where a partition failed.
3. A local replica is read through `admission.read`, and only there: it checks existence, role,
   state, staleness and bound in this order, which is part of the API. Then it calls the reader's
   function with the view. The function must take what it needs before it returns, for a commit
   closes the view.
4. Another pod is asked by `peer_reads`, with the caller's own token, so that a pod lends nobody its
   rights. The request says `scope=local`: the other pod asks no third one.
5. After a failure the router names the next replica, or the active that the error names. Failures
   of the request or the rows end the search.

The time of a request is shared among the replicas that may still be asked. `budget` has the rows,
bytes and time left to a scan, `trace` the times of layers if the client asks for them.

The package is below `plans` and all readers; it uses `replicas`, `storage.views` and the client's
`known_pods`. Tests: `test_replica_router`, `test_scatter`, `test_peer_reads` (unit),
`test_silent_peers` and `test_queries_failures` (integration).
"""
