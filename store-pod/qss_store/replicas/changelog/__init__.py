"""The changelog of one replica, in the replica's database.

`changelog` has the log's state (the pure `replication.log`) and its entries on disk:

1. An active appends an entry, a follower takes entries of its active as they are. Neither is
   durable before a sync, which many replicas of a pod share (`replicas.group_sync`).
2. Senders read the entries between two offsets, and compare the log's places by their digests.
3. After an entry was applied, the log is cut to the store's retention. `retention` finds the
   entries to delete, some hundred at a time, and keeps those that a copying learner still needs.
   The log's last deleted entry stays in the meta family: a log without entries continues after it.

`stored_entries` has the rows of entries and payloads in the column families, and checks a payload
against the checksum in its entry.

Tests: `tests/unit/qss_store/replicas/test_changelog` and, in `tests/integration/replicas`,
`test_kept_entries`.
"""
