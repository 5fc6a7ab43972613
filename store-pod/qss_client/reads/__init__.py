"""The reader's half of the client.

`requests` and `scans` say what is asked, as values; `responses` reads answers; `calls` puts
both together as exchanges without any I/O; `session` remembers, between requests, which pods
there are, and `routing` chooses among them. `sync_session` and `async_session` do the talking.
`tables` gives answers as Arrow tables, `key_order` merges partitions, `json_values` reads
numbers exactly.
"""
