"""Opens the partitions of an assignment, one by one, and keeps the reason of each failure.

`assignment_checks` refuses an assignment of another store, or with a format that the store's type
lacks; `replication/log.py` refuses older epochs. `take_assignment` has each replica take its part
of the assignment. `open_database` opens the database, and refuses a database that holds less than
was synced. `mixed_volumes` notices the volume of another pod. `unopened` lists the partitions that
the pod does not serve, `reopening` opens them again where the reason can pass, and `take_out` takes
out a replica that failed while it ran.
"""
