"""The changelog of one partition, and how several replicas keep it equal. Pure.

1. The active appends an entry. `entries` encodes it, `digest` adds the running digest, which tells
   whether two logs are equal, and `log` gives it the next offset.
2. `active` says from which entry on each replica gets entries. Before that the replica has to say
   which database it has: `hello` checks that it is the right one.
3. `messages` encodes the entries of many partitions into one request to another pod.
4. `follower` decides about them there: add entries, cut own entries that differ, or refuse the
   request. The follower makes the entries durable and acknowledges them.
5. `active` computes the high watermark from the acknowledgements: every in-sync replica holds the
   entries under it. Only these entries are applied, on the active and on the followers.
6. `frames` carries the files of a database to a replica that lacks too many entries.
7. `lease` says for how long an active may act without an acknowledgement, and when its successor
   may begin.

`log` has the rules of one log: how it grows, which entries may be applied, how it is cut, and which
epochs it takes. The other modules except `entries` and `digest` are for partitions with standbys.

`replicas.changelog` keeps a log on disk, `replicas.peers` and `replicas.transfer` carry out these
decisions.
"""
