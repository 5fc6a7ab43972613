"""The replication of one partition in the smallest world: no event loop, no transactions.

`nodes` has the machines and `Guards`, the rules of the protocol that can be taken out as in the
model `replication.pml`. `story` runs the replicas by a seed, and checks them after each step.
`broken` takes each rule out, and finds the seed that shows it.
"""
