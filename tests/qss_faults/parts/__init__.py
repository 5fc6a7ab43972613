"""The processes, links, disks and files of the store that is struck.

`namespaces` gives the command a network and mounts of its own, in which `network` makes hosts and
`volumes` mounts disks; so nothing of them outlives the command. `processes` runs pods and operator,
`operator_program` is the operator, and `damage` changes files.
"""
