"""The findings about a store in words, for the conditions of its status.

`obstacles` says why pods and partitions do not serve, `wishes` which part of the spec is not
carried out, `full_volumes` which volumes are full, `rebalancing` what moves between pods, and
`served` counts the partitions that are served. `planning.status` puts them together.
"""
