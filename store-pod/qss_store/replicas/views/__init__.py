"""The states that readers of one replica get.

`view_maker` makes a view after each commit, `current_view` publishes it and wakes who waits for
it. `uncommitted` lays staged rows over a view for readers that ask for them, in memory that
`uncommitted_memory` bounds; `decoded_rows` keeps recently staged rows as they were decoded.
"""
