"""Plans requests: the keys, times or index rows of a partition, in bytes. Pure.

A plan is made once for a request, and carried out in each of its partitions:

1. A handler calls the planner of its path: `keys` for one key, a range or a count, `times` for
   windows and sessions, `versions` for versions of a key. An IQv2 query goes to `dispatch.plan_of`,
   which chooses among them by the type of the query and of the store, and to `indexes` for an
   index.
2. The planner decodes keys by the store's serde, and times, and checks their order. All refusals
   that need only the request come here, before any replica is asked.
3. The readers (`scans`, `gather`, `get_many`) read by the plan. `encode` writes the members of its
   `shape`.

A plan with rows in order has a `digest`, which a cursor carries: a cursor of another query is
refused. It leaves out the parts that may change between two pages: the shape, and the version of
the store's type.

Bounds of requests are inclusive, as in Kafka; `ScanPlan` has an exclusive upper bound of bytes.
Another pod makes its own plan of the request: plans are never sent.

The package uses `codec` and `storage.index_keys`, and no replica. Tests: `test_plans`,
`test_timed_plans` and `test_index_plans` in `tests/unit/qss_store/reads`.
"""
