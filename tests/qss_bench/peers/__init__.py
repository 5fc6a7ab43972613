"""Compares a store with what users would pick in its place, side by side in one run.

`make bench-peers` (`python -m qss_bench.peers [PART...]`) has three parts. `needs` lists programs
that they take: what Debian has, and what Maven fetches from its central repository. A part that
lacks a program says which, and nothing runs.

1. `reads`: one store pod beside Kafka Streams' interactive queries, with the same rows and the same
   request files, and beside Redis. The servers share one core and the load has another, so the
   figure to compare is the work for each CPU second of the server.
2. `writes`: micro-batches of a Spark query into a store, PostgreSQL and Redis, in turns.
3. `kills`: what a reader of each finds after the driver was killed in the middle of a batch. Its
   query is the program `query`.

`kafka-streams/` is the peer of the reads, a project of Maven (`tests/docs/kafka-streams-peer.md`);
`kafka` builds and runs it, `data_set` has the rows that both stores hold, and `wrk` the loads.
`servers` runs Redis and PostgreSQL, and `sinks` has what users write into `foreachBatch` for them.
`tables` are written to `.bench/peers.md`.

Every process is a child of the run, listens on the loopback and ends with it.
"""
