"""The simulated parts of the world, each of which can fail.

`seeded_loop` runs the nodes in turns, in simulated time, and `clocks` are the clocks of their
machines. `disk` keeps what was synced, `network` carries messages as values, `api_server` stores
the resource. `trace` notes what happened.
"""
