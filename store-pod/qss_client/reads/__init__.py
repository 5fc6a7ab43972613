"""The reader's half of the client.

`requests` and `scans` build requests, `responses` parses answers; `calls` combines them to
exchanges without I/O. `session` keeps the known pods and positions between requests, and `routing`
chooses among the pods. `sync_session` and `async_session` do the I/O. `tables` gives answers as
Arrow tables, `key_order` merges partitions, and `json_values` reads numbers exactly.
"""
