"""Chooses the replica that answers a read, and asks it.

`replica_router` orders the replicas of a partition, and says which one is next after a failure.
`admission` says whether a local replica may answer, and has a function read from its state.
`peer_reads` asks another pod, one hop and never more; `scatter` asks many partitions at once.
`budget` bounds a scan, `trace` measures the layers of an answer.
"""
