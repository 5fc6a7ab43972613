"""Kubernetes as the operator sees it: one thin client, the lease, events, health."""
