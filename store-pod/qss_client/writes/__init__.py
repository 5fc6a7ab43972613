"""The writer's half of the client: opens a run, stages rows, commits a batch.

1. A program without an event loop calls `batch`: `open_writer`, for each batch `stage` and `commit`
   (or `write_batch`), `renew` to keep the run open, and `abort` to give a batch up.
2. `batch` runs an exchange of `exchanges`: a generator that holds the protocol without any I/O. It
   yields `steps`: a request to a pod, or a pause after a failure. `batch` carries each step out,
   and sends the outcome back, or throws the error in.
3. `routes` says which pod a step asks: the active of the slice's partition to stage, the active of
   partition 0 (the coordinator) for all else. After a failure that asks for it, `routes` discovers
   the pods again, each time from another pod first, and keeps the newest epoch of each partition.
4. `Run` carries the opened writer and the routes. Tasks on other machines get a copy of it to stage
   with, and return `Staged` references, which the commit names in their order.

Every request may be sent again with the same bytes: an open has an id, a slice a chunk id and a
checksum, a commit a fingerprint. So a lost answer is no error; it is asked for again until the
deadline. Each request names the id of the store: a store that was made again under the same name
refuses it, and the exchange ends with that failure.

`writers` is apart: it lists and deletes writers for `qss writers`. All but `batch` and `writers` is
pure; the simulation runs the same exchanges on its own loop. The package uses `reads.routing`,
`chunks` and `http`; Spark's sink and tests use it. Tests: `tests/unit/qss_client/writes`.
"""
