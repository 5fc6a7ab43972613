"""The changelog of one partition, and how several replicas keep it equal. Pure.

`entries` has the entries and their bytes, `digest` the running digest that tells whether two logs
are equal, and `log` the rules by which a log grows, becomes applicable, and is cut. The other
modules are for partitions with standbys.

`active` is the side that sends: from which entry on each replica gets entries, and whose
acknowledgements the high watermark waits for. `follower` is the side that takes: which entries it
adds, which own ones it cuts, and when it refuses. `hello` tells whether the volume behind an
address is the right one. `lease` says for how long an active may act without hearing anything, and
when its successor may begin.

`replicas.changelog` keeps a log on disk, and `replicas.replica` takes entries by these rules.
"""
