"""Lets at most one operator act at a time.

`lease` takes and renews the Lease by the pure rules of `lease_rules`, `watchdog` ends a process
that lost it, and `health` tells the kubelet whether the process works.
"""
