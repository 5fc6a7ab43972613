"""The state directory of a local cluster.

`state` has its layout and the lock of the running `qss up`. `edit_lock` has the lock of a command
that changes stored resources. `files` replaces files atomically, and `ports` keeps the ports of the
pods.
"""
