"""The operator's client of the Kubernetes API.

`client` reads and writes objects as dicts, over one `connection`. `requests` has requests as
values, `errors` typed failures, and `kinds` the paths of kinds. `retries` decides which requests
are sent again. `read_cache` repeats a read only after a change.
"""
