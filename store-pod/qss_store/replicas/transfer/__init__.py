"""Carries the logs of a pod's actives to the pods of their followers.

1. `senders` runs a task for each other pod that has a follower, and starts more tasks when the pod
   gets an assignment. `peers.send_signal` wakes them after an append or a new watermark.
2. `peer_sender` is the task: it sends the logs of all actives of this pod to one other pod, with
   one request in flight; entries that are appended meanwhile go with the next request. A request
   has about 4 MiB of entries; a partition without room in it comes first in the next.
3. On the other pod `log_receiver` takes the request for the replicas there. Each partition answers
   for itself: a refusal of one is a part of the answer, and does not stop the others.
4. `peer_sender` gives the answers to `peers`, which chooses the entries to send, and decides by
   each answer.

A learner that the log no longer reaches gets the whole database: the active's request names it
under `copies`. Then `learner_copies` on the learner's pod asks the active for a snapshot, fetches
the files in parts of at most 8 MiB at the set rate, and has the pod install them; a thread writes
each `copied_file` frame by frame. `snapshots` makes the snapshot: a checkpoint, whose files are
links. At most four are held at a time.

`row_comparison` compares the rows of an active with those of its standbys, after a slow pass of
`volume.scrubber`.

A start removes the files of earlier processes under `incoming` and `snapshots`. The package is the
top of `replicas`; `writes.pod_services` makes its objects, and `http.internal` calls `log_receiver`
and `snapshots`. Tests: `test_standbys`, `test_peer_download`, `test_replication_bad_input`,
`test_replication_metrics` (integration), and `tests/simulation`, with another `Transport`.
"""
