"""Chooses the pod that a client asks, and how long it waits for the answer. Pure.

1. The `session` of a reader has the routes (`StoreMetadata`) and `known_pods`. For each request
   `replica_choice` orders the pods: the active first, then the replicas that answered fastest. Pods
   without an answer in the last two seconds come last, and are still asked.
2. The session makes an `attempt` of this order. The `sync_session` or `async_session` asks it for
   the next pod and its time (`take`), sends the request, and tells it the outcome.
3. `attempt` writes the outcome into `known_pods`: the time of an answer, or a silence. A point read
   gives each pod but the last one four times its usual slow answer, at least 0.25 s. Other requests
   may take long, so the session asks the same pod for something small meanwhile.
4. If another pod missed before one answered, the routes may be old, and the session discovers them.
   `replica_choice.newer_of` keeps the newest epoch of each partition: a pod that was cut off from
   the others tells old routes.

Only silence counts against a pod, and `is_silence` tells it by the error's cause: a pod may report
that a third pod is unreachable, and has answered thereby. A failure that another replica may not
have is kept, and raised if all replicas fail.

Times are seconds of a monotonic clock that the caller passes. `writes.routes` uses the same choice,
and the pods use `known_pods` for reads from each other. Nothing here imports a session. Tests:
`test_attempt`, `test_routing`, `test_session` in `tests/unit/qss_client/reads`.
"""
