"""The query port: the requests of readers (`/state/...`).

`app` makes the application: its middlewares, its handlers, and its routes from the table of
`routes`. A request comes in at one of two places:

1. `fast_path` takes a plain GET straight from its bytes, if all of its rows are in this pod. It
   calls the same functions as the handlers, and `fast_rows` for many rows of a local partition.
   Any other request, and any that would fail, goes to aiohttp.
2. aiohttp finds the handler. `point` answers for one key, `scans` for ranges and prefixes, `timed`
   for windows and sessions, `versions` for versions of a key, `queries` for IQv2 queries, counts
   and batch gets.

A handler parses the path and the parameters, and makes a plan and options of them (`reads.plans`,
`reads.request`). It calls a function of `reads`, which finds the replicas and returns rows.
`streams` writes rows as JSON or CSV, while they are read or as one document; `arrow` writes them as
an Arrow stream, with the columns of `arrow_columns`. Its handler writes an answer with one row.

A request for a key of another pod is passed on once, and that pod's answer comes back unchanged.
`openapi` makes the OpenAPI document from the table of routes.
"""
