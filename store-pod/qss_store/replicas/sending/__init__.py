"""Carries the logs of a pod's actives to the pods of their followers.

`peer_sender` sends the logs of all actives of this pod to one other pod, with one request in
flight; what is appended meanwhile goes with the next request. `senders` runs such a task for each
other pod. `receiver` takes the requests of other pods for the replicas of this pod. What is sent,
and what an answer means, `replicas.peers` decides.

`snapshots` gives the files of this pod's databases to learners. `snapshot_copies` copies those of
another pod for the learners of this one; a thread writes each `copied_file`.
`row_comparison` compares the rows of an active with those of its standbys.
"""
