"""Chooses the replica that answers a read, and asks it.

`replica_router` orders the replicas of a partition, and names the next one after a failure.
`admission` decides whether a local replica may answer, and calls a function with its state.
`peer_reads` asks another pod, which asks no third one; `scatter` asks many partitions at once.
`budget` limits a scan, `trace` measures the layers of an answer.
"""
