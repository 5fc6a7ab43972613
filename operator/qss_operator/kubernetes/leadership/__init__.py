"""Lets at most one operator act at a time.

`lease` takes and renews the Lease by the pure rules of `lease_rules`. A process that cannot renew
in time stops its rounds and ends; `watchdog` is a thread that ends it even if the event loop stands
still. Another process takes over after the lease's whole duration.

`health` is the ops port: it tells the kubelet whether the process works, and serves the metrics.
"""
