"""The reader's half of the client: from a call of `Store` to rows.

1. `calls` makes each operation an exchange without I/O: it yields a request and gets an answer.
   `requests` builds the request: path, parameters and body; `keys` has a key's bytes, its text in
   a path, and the partition that has to answer.
   `scans` has the pages of scans, of key ranges, windows, sessions and versions.
2. `sync_session` or `async_session` runs the exchange. It discovers the store's pods before the
   first request, and again when an error says that the routes are old.
3. `session` keeps the state between requests: the known routes, and the newest position seen. It
   adds this position to later requests, if the caller wants answers that are at least as new.
4. `routing` orders the pods that may answer, and says how long to wait for each.
5. `responses` parses the answer to rows or to results of partitions. `json_values` reads numbers
   exactly. A failure inside of an answer makes the exchange yield its request again.
6. Many rows come back as pages, which are read as the caller takes them. `tables` gives them as
   rows or as Arrow tables, and `key_order` merges the rows of several partitions by key.

All modules but the two sessions are pure: tests run an exchange without a pod.
"""
