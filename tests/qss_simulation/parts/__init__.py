"""The simulated parts of the world, each of which can fail.

A process of the product (`qss_simulation.processes`) runs over these parts:

* `seeded_loop` runs the nodes in turns, in simulated time; the seed chooses the next node. A node
  is a process: a pod, a driver, a reader, the operator. It can be paused, or end at any await.
* `clocks` are the clocks of the machines, quicker or slower than others.
* `disk` keeps what was synced. Of the rest a power loss leaves a part.
* `network` carries requests and answers as encoded values. It loses, repeats, delays and reorders
  them, and can be cut.
* `api_server` stores the store's resource, for the operator. It may answer late, old or not at all.

`store_type` is a user's own store type, in several versions. `trace` notes what happened, when and
where: the same seed gives the same trace. `transitions` names the changes
of configurations that the operator publishes, so that a run says which of them it met.
"""
