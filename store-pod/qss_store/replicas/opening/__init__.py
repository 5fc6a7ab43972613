"""Opens the partitions of an assignment, one by one, and keeps the reason of each failure.

`replicas.pod` and `replicas.assigned_replicas` call these modules when an assignment comes, or is
read from the volume at a start:

1. `assignment_checks` refuses an assignment of another store, an older assignment, and one with a
   format that the store's type lacks.
2. `open_database` opens the database of each partition of this pod. It compares the database with
   its sync mark, and refuses one that holds less than was synced: it would be served as if it were
   the data. `mixed_volumes` words the refusal if the volume seems to belong to another pod.
3. `take_assignment` gives each open replica its configuration and the store's definition. A replica
   that cannot take them fails alone.
4. `unopened_partitions` lists the partitions that could not be opened, with the reasons, for the
   operator's report. `reopening` opens them again later, where the reason can pass: a full disk,
   too few file handles.

While the pod runs, `take_out` closes a replica that has failed, and puts it on the list of
`unopened_partitions`. `retirement` deletes a replica that its partition's configuration leaves out,
but only at the operator's request: before that, the other pods may not know that they are alone.
`leaving` lets a pod that was told to stop serve on until other pods have taken over.
`own_type` makes the type of a store of a user's own type.
"""
