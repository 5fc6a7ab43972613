"""The states that readers of one replica get.

`view_maker` makes a view after each commit, `current_view` publishes it and wakes the requests that
wait for it. `uncommitted` puts staged rows over a view for readers of uncommitted rows;
`uncommitted_memory` limits the memory for them. `decoded_rows` keeps the decoded rows of recent
chunks for their commits.
"""
