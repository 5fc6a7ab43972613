"""The replication of one partition in the smallest world: no event loop, no transactions.

1. `story.run` makes three replicas with the product's `Changelog` and the rules of `replication`,
   over simulated engines, and takes 600 steps that the seed chooses: an active appends or sends, a
   message arrives in any order, twice or never, a sync ends, power is lost, the operator changes
   the configuration.
2. After each step the story checks that in-sync replicas hold durably what was acknowledged, and at
   the end that all replicas get equal.
3. `nodes` has the machines, the messages, and `Guards`: the rules of the protocol that can be taken
   out, each with the product's rule as its default. `store-pod/docs/replication.md` tells the
   protocol.
4. `broken` has for each rule a wrong one in its place, and finds the first seed in which that
   shows.

It is quick, so it meets orders of steps that the large simulation meets seldom. It has no leases,
no network and nothing of `replicas.peers`.

The search for a rule takes 500 seeds. `FIRST` says where it begins for rules whose lack shows in
few runs. A change of the rules or of the steps changes the runs, and so these numbers.

`qss_simulation.planted` runs `broken`, too. The package imports `parts.disk`, and no `world`.
Tests: `tests/simulation/test_replicated_log.py`.
"""
