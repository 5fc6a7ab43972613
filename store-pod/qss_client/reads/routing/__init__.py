"""Which pod a client asks, and for how long.

`replicas` has the addresses of a partition's replicas, `known_pods` what a client knows of each
pod, and `turn` asks the pods one after the other.
"""
