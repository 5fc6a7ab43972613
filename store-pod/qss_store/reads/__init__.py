"""Reads: from a request to rows, over the replicas of this pod and of other pods.

1. A handler of `http.query` calls `plans`: a plan has the keys, times or index rows that are asked
   for, in bytes. `request.ReadRequest` holds the plan, the options (position bound, isolation,
   timeout), and the `codec` with the store's serdes and format.
2. One module for each kind of read takes the request: `get_many` batch gets (`rows_of_keys` reads
   their rows as long as the answer has room), `gather` one result from each partition,
   `multi_scan` scans of partitions one after the other (`early_parts` reads those of other pods
   meanwhile), `time_scan` scans that are merged by time, `exact_count` counts, `user_queries` the
   users' own query types. A get of one key needs none of them: `http.query.point` reads it.
3. `routing` chooses a replica for each partition. A local replica is read through
   `routing.admission.read`: all local reads pass its checks of role, bound and isolation. Another
   pod is asked through `routing.peer_reads`, and does not ask a third one. After a failure the next
   replica is asked.
4. `scans` reads the rows of one partition from one state, a chunk at a time. `large_rows` remembers
   the sizes of large rows, so that their next read waits for a turn first.
5. `encode` writes the rows as JSON or as columns for Arrow, and the handler sends them. A scan that
   stops at a limit ends with a cursor (`scans.cursors`), from which any pod continues.

`context` has the parts that all reads of a pod share: replicas, connections to other pods, limits,
the codec.
"""
