"""Opens the partitions of an assignment, one by one, and keeps the reason where one cannot be
opened.

`take_assignment` has each replica take its part of an assignment, `open_database` opens the
database and refuses one that holds less than was synced, `mixed_volumes` notices a volume that
belongs to another pod, `assignment_checks` refuses assignments that are older or of another
store. `unopened` lists the partitions that are not served; `reopening` tries those again whose
reason can pass; `take_out` takes a replica out that failed while it ran.
"""
