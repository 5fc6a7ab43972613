"""The state directory of a local cluster.

`state` has its layout and its lock, `files` replaces files atomically, and `ports` keeps the ports
of the pods.
"""
