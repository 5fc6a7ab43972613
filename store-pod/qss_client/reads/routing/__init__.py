"""Chooses the pod that a client asks, and how long it waits for the answer.

`replicas` has the addresses of a partition's replicas, `known_pods` what a client knows of each
pod, and `turn` asks the pods one after the other.
"""
