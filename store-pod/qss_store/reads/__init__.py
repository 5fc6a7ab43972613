"""Queries: from a request to rows, over the replicas here and on other pods."""
