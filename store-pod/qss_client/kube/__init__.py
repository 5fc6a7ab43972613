"""Stores of a Kubernetes cluster.

`connection` reaches a store by its name: from a pod by its Service, and from elsewhere by
`kubectl`, which runs as a child process (`child_processes`) and ends with its parent.
"""
