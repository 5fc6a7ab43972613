"""The processes of a run: product code over simulated parts.

`world` starts each of them in a node of its own. The node may be paused, or end at any await, and
nothing announces it: what a process has not synced or sent is gone then.

1. `operator` runs the product's reconciler and planner, with the simulated cluster, pods and API
   server as its ports. It hands assignments to the pods.
2. `pod` composes a store pod as `qss_store.__main__` does, and runs the same tasks without HTTP.
   Its `handle` takes requests of the network, and does what the handlers of the internal port do. A
   new handler or task of the product has to be added here, too, or the simulation runs without it.
3. `writer` is the driver of a streaming query: it runs the client's own exchanges, stages by up to
   three tasks, commits, and replays its last batch as Spark does. It tells `history` what it was
   told.
4. `reader` asks one partition after the other, any replica or the active alone, and checks that no
   state goes back and that an active shows all that was acknowledged before the read.

Messages are bytes on the network, as the product encodes them, so no object is shared between two
nodes. What a process keeps in memory ends with its node; `world` alone remembers more.

`scenarios.writing` uses `writer` and `reader` for single steps. The package imports `parts` and
`history`, and no `world`. Tests: `tests/simulation`.
"""
