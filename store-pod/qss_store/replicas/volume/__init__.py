"""The files of a pod's volume beside the databases, and the volume's free space.

1. At the start `pod` has `assignment_file` read the assignment, so that a pod which restarts needs
   no operator. An unreadable file means that the pod serves no partition; it never counts as
   absent.
2. `opening` reads the sync marks by `kept_files`, and compares each database with its mark. A mark
   says up to where a database was synced: a database that holds less has lost entries, and is
   refused. RocksDB itself opens a shortened log without an error.
3. While replicas serve, `sync_marks` renews the marks after syncs, at most once a second. A mark
   names only durable entries, so a crash in between refuses nothing.
4. `volume_watch` looks once a second. While less than 64 MiB are free, batches are refused and
   reads go on; when the directory is gone, or another one, the pod ends.
5. `promised_lease` keeps the longest lease that the pod promised to an active: a process that
   starts does not know its promises, and waits as long before it helps another one.
6. `scrubber` reads all rows slowly, reports the damage that it meets, and then has the rows
   compared with the standbys' rows.

A replica that is behind, or was not compared yet, keeps its old mark: a newer one would refuse the
files that a person brings back. A mark is deleted before its database is. Files are replaced as a
whole by `kept_files.replace_file`: after a crash the volume has the old file or the new one.

`pod-ordinal` and `schema-of-rows.json` repeat facts of the databases, for programs that open none.
`kept_files.Volume` knows the paths of databases and leftovers. Of `replicas` the package imports
only `replica` and `group_sync`. Tests: `test_sync_marks`, `test_volume_watch` and
`test_promised_lease` (unit), `test_damage_of_kept_files`, `test_scrubber` and
`test_full_volume_told` (integration).
"""
