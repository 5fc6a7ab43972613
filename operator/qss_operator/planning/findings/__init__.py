"""What the conditions of a store say, each part in words: what does not run, what is not done.

`obstacles` says why pods and partitions do not serve, `wishes` which part of the spec is not
carried out, `full_volumes` which volumes are full, `rebalancing` what moves between pods, and
`served` counts the partitions that are served. `planning.status` puts them together.
"""
