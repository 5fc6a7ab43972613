"""The messages between pods, writers and the operator, and some that a person reads. Pure.

1. A writer opens, stages and commits: `messages` has these requests and answers, and `chunk_ids`
   the ids by which a pod recognizes a chunk that is sent again.
2. The coordinator has other pods prepare, commit or abort their partitions: also `messages`.
   `PartitionCommit` is also the payload of an entry in the changelog.
3. Pods compare their sequences: `losses` has what they ask, and a person's acceptance of a loss.
4. Pods report to the operator: `replica_reports`. The operator answers with an assignment
   (`model`), or has a replica deleted: `retirement`.
5. `qss writers` shows `writer_reports`, and `qss stores` and `qss describe` show `discovery`.
   `csv_rows` writes rows as CSV, for pods and for `qss`.

`encode` and `decode` of `messages` are the only way to bytes. `bodies.decode_request` is for bodies
of readers: it also refuses an object that has one member twice. A failure is a `Problem` on the
wire: `problem_of` and `error_of` convert a `StoreError` to it and back, with code and details.

Programs of two versions talk to each other during an update. So a new member needs a default, by
which messages and log entries without it are read. Receivers ignore unknown members of answers and
reports (`model.Answer`), and refuse those of requests, assignments and log entries. Pods and the
operator name the version of their messages in a header; `versions` makes messages that an older
side reads.

The package knows `model`, `positions` and `errors`, and neither queries nor the spec. Pods, clients
and the operator use it. Tests: `tests/unit/qss_core/wire`, and the refusals of bad messages in
`test_writes_bad_input` (integration).
"""
