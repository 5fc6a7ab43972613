"""The Kubernetes API as the operator uses it: `client` reads and writes objects as dicts, over one
`connection`; `requests` are requests as values, `errors` typed failures, `retries` says which
requests are sent again, `kinds` where objects are. `read_cache` repeats a read only after a
change.
"""
