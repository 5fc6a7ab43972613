"""Chooses the pods of each partition's replicas, and its active. Pure and deterministic.

`place.place` takes the pods as `sites`: each pod with its zone and its node, and whether it gets
new replicas. It takes the previous placement, too, whose replicas stay where they may. The steps:

1. `draft` begins with the previous replicas. It then adds the replicas that partitions lack, each
   on a pod whose zone and node have the fewest replicas of that partition.
2. `balance` moves replicas from fuller to emptier pods, until the pods hold the numbers that
   `shares` computes. Where a pod of a small zone would get too many replicas, `shares` limits them.
3. `spread` swaps replicas between pods, so that the replicas of a partition are in different zones
   and on different nodes. It keeps the balance that the step before has made.
4. `actives` chooses the active of each partition: even, and the previous one where it may stay.

A replica that has data moves only for balance and for zones, after the replicas without data. The
searches have a limit: a large store gets the best placement that was found within it.
"""
