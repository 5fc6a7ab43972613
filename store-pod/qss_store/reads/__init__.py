"""Reads: from a request to rows, over the replicas of this pod and of other pods.

A request becomes a plan (`plans`) in bytes, and a `request.ReadRequest` with its codec and
options. `routing` chooses a replica for each partition. A local replica is read through
`routing.admission.read`, which all local reads pass; another pod is asked through
`routing.peer_reads`. `scans` reads the rows of one partition, `encode` writes them.

`get_many` (batch gets), `gather` (one result from each partition), `multi_scan` (partitions one
after the other), `time_scan` (partitions merged by time), `exact_count` and `user_queries` are
the kinds of reads. `context` is what all of them share in a pod; `codec` holds the store's
serdes and format.
"""
