"""Queries and their answers, as JSON and as parameters of a GET. Pure.

A query comes in one of two ways, and the pod treats both alike:

1. As the JSON body of a POST: `requests` has the body, `types` decodes the query in it. These are
   Kafka's IQv2 types by name and members. An unknown type is another error than a malformed query.
2. As a GET: `parameters` parses the query string once, refuses unknown and repeated names, and
   makes `ReadOptions`. `timed_parameters` adds the parameters of windows, sessions and versions,
   where `from` and `to` are times.

The answers are in `requests`: for each partition a result or a failure. A failure in one partition
is a part of the answer and no HTTP status. In a stream a mark follows the rows of a partition; its
first bytes tell it from a row.

The tables of parameters serve twice: handlers check requests against them, and the OpenAPI document
is made from them. A new parameter goes into the table, and into the tuple of each path that takes
it.

Only the JSON's form is checked here. Whether a store can answer a query, the pod decides in
`reads.plans.dispatch`, which also decodes the keys by the store's serde. Nothing else in `qss_core`
imports this package; the client and the pods do. Tests: `tests/unit/qss_core/queries`, and
`test_queries_iqv2` (integration).
"""
