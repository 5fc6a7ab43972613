"""Chooses the pod that a client asks, and how long it waits for the answer.

`replica_choice` puts the replicas of a partition in order, by what `known_pods` knows of each pod,
and takes newer routes. `attempt` asks the pods one after the other, each for a limited time.
"""
